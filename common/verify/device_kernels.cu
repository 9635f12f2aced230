#include <algorithm>
#include <cstdint>

#include "common/operations/reference.hpp"
#include "common/tensors/random.hpp"
#include "common/verify/device_kernels.hpp"
#include "common/verify/element_check.hpp"

namespace rmsnorm {
namespace {

constexpr int kThreads = 256;

__global__ void probe() {}

/// x, or x + residual as an fp32 number.
__device__ float normed_at(const TypedProblem& p, const void* residual_before, std::int64_t i) {
  const float x = value_at(p.x, p.dtype, i);
  return residual_before == nullptr ? x : x + value_at(residual_before, p.dtype, i);
}

/// One block a row, with the lessons' means but in fp64: a tree adds the threads' partial sums.
__global__ void compare_rows(
    TypedProblem p, const void* residual_before, double bound, DeviceFindings* findings) {
  __shared__ double partial[kThreads];
  double max_error = 0;
  for (std::int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const std::int64_t begin = row * p.hidden;
    double sum = 0;
    for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
      const double value = normed_at(p, residual_before, begin + col);
      sum += value * value;
    }
    partial[threadIdx.x] = sum;
    for (int stride = kThreads / 2; stride > 0; stride /= 2) {
      __syncthreads();
      if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
    }
    __syncthreads();
    const double rstd = reference_rstd(partial[0], p.hidden, p.eps);
    __syncthreads();  // everybody has read partial[0] before the next row overwrites it

    for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
      const float normed = normed_at(p, residual_before, begin + col);
      const ElementCheck check = check_element(
          value_at(p.y, p.dtype, begin + col), normed, factor_of(p, col), rstd, bound, p.dtype);
      const auto index = static_cast<unsigned long long>(begin + col);
      if (!check.ok) atomicMin(&findings->first_wrong, index);
      if (p.residual != nullptr &&
          !is_sum(value_at(p.residual, p.dtype, begin + col), normed, p.dtype)) {
        atomicMin(&findings->first_sum, index);
      }
      max_error = fmax(max_error, check.error);
    }
  }
  atomicMax(
      &findings->max_error_bits, static_cast<unsigned long long>(__double_as_longlong(max_error)));
}

/// Adds up a hash of every word and its place.
template <class Word>
__global__ void hash(const Word* data, std::size_t size, unsigned long long* sum) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kThreads;
  unsigned long long mine = 0;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i < size; i += step) mine += random_bits(data[i], i);
  if (mine != 0) atomicAdd(sum, mine);
}

}  // namespace

cudaError_t launch_probe(cudaStream_t stream) {
  probe<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

cudaError_t launch_compare_rows(
    const TypedProblem& p, const void* residual_before, double bound, DeviceFindings* findings,
    cudaStream_t stream) {
  const int blocks = std::min(p.rows, 1 << 16);
  compare_rows<<<blocks, kThreads, 0, stream>>>(p, residual_before, bound, findings);
  return cudaGetLastError();
}

cudaError_t launch_hash(
    const void* data, std::size_t bytes, unsigned long long* sum, cudaStream_t stream) {
  const bool is_whole = (reinterpret_cast<std::uintptr_t>(data) | bytes) % 4 == 0;
  const std::size_t size = bytes / (is_whole ? 4 : 2);
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>(size / kThreads + 1, 2048));
  if (is_whole) {
    hash<std::uint32_t>
        <<<blocks, kThreads, 0, stream>>>(static_cast<const std::uint32_t*>(data), size, sum);
  } else {
    hash<std::uint16_t>
        <<<blocks, kThreads, 0, stream>>>(static_cast<const std::uint16_t*>(data), size, sum);
  }
  return cudaGetLastError();
}

}  // namespace rmsnorm
