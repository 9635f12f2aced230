#include <algorithm>
#include <cstdint>

#include "common/device_kernels.hpp"
#include "common/element_check.hpp"
#include "common/random.hpp"
#include "common/reference.hpp"

namespace rmsnorm {
namespace {

constexpr int kThreads = 256;

__global__ void probe() {}

/// One block a row, with the lessons' means but in fp64: a tree adds the threads' partial sums.
__global__ void compare_rows(Problem p, double bound, DeviceFindings* findings) {
  __shared__ double partial[kThreads];
  double max_error = 0;
  for (std::int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const float* x = p.x + row * p.hidden;
    const float* y = p.y + row * p.hidden;

    double sum = 0;
    for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
      const double value = x[col];
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
      const ElementCheck check = check_element(y[col], x[col], p.weight[col], rstd, bound);
      if (!check.ok) {
        atomicMin(&findings->first_wrong, static_cast<unsigned long long>(row * p.hidden + col));
      }
      max_error = fmax(max_error, check.error);
    }
  }
  atomicMax(
      &findings->max_error_bits, static_cast<unsigned long long>(__double_as_longlong(max_error)));
}

/// Adds up a hash of every float and its place.
__global__ void hash(const float* data, std::size_t size, unsigned long long* sum) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kThreads;
  unsigned long long mine = 0;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i < size; i += step) mine += random_bits(__float_as_uint(data[i]), i);
  if (mine != 0) atomicAdd(sum, mine);
}

}  // namespace

cudaError_t launch_probe(cudaStream_t stream) {
  probe<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

cudaError_t launch_compare_rows(
    const Problem& p, double bound, DeviceFindings* findings, cudaStream_t stream) {
  const int blocks = std::min(p.rows, 1 << 16);
  compare_rows<<<blocks, kThreads, 0, stream>>>(p, bound, findings);
  return cudaGetLastError();
}

cudaError_t launch_hash(
    const float* data, std::size_t size, unsigned long long* sum, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>(size / kThreads + 1, 2048));
  hash<<<blocks, kThreads, 0, stream>>>(data, size, sum);
  return cudaGetLastError();
}

}  // namespace rmsnorm
