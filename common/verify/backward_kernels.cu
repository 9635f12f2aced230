#include <algorithm>
#include <cstdint>

#include "common/contract/types.hpp"
#include "common/operations/reference.hpp"
#include "common/verify/backward_kernels.hpp"

namespace rmsnorm {
namespace {

constexpr int kThreads = 256;

/// Sum over the threads of a block, which every thread gets.
__device__ double block_sum(double value) {
  __shared__ double partial[kThreads];
  __syncthreads();  // everybody has read partial[0] of the sum before
  partial[threadIdx.x] = value;
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    __syncthreads();
    if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
  }
  __syncthreads();
  return partial[0];
}

__global__ void compute_rstd(BackwardProblem p, float eps, float* rstd) {
  for (std::int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    double sum = 0;
    for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
      const double x = value_at(p.x, p.dtype, row * p.hidden + col);
      sum += x * x;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) rstd[row] = static_cast<float>(reference_rstd(sum, p.hidden, eps));
  }
}

__global__ void compare_dx(BackwardProblem p, double bound, DeviceFindings* findings) {
  double max_error = 0;
  for (std::int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const double rstd = p.rstd[row];
    SignedSum mean;
    for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
      const std::int64_t i = row * p.hidden + col;
      mean.add(row_product(
          value_at(p.x, p.dtype, i), value_at(p.dy, p.dtype, i), factor_of(p, col), rstd));
    }
    mean.value = block_sum(mean.value) / p.hidden;
    mean.size = block_sum(mean.size) / p.hidden;
    for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
      const std::int64_t i = row * p.hidden + col;
      const ElementCheck check = check_dx(
          value_at(p.dx, p.dtype, i), value_at(p.x, p.dtype, i), value_at(p.dy, p.dtype, i),
          factor_of(p, col), rstd, mean, bound, p.dtype);
      if (!check.ok) atomicMin(&findings->first_wrong, static_cast<unsigned long long>(i));
      max_error = fmax(max_error, check.error);
    }
  }
  atomicMax(
      &findings->max_error_bits, static_cast<unsigned long long>(__double_as_longlong(max_error)));
}

constexpr int kColumns = 32;  ///< of a block
constexpr int kStripes = 8;   ///< of rows, that add up side by side

__global__ void column_sums(BackwardProblem p, SignedSum* sums) {
  const std::int64_t col = blockIdx.x * std::int64_t{kColumns} + threadIdx.x;
  SignedSum sum;
  for (std::int64_t row = threadIdx.y; row < p.rows && col < p.hidden; row += kStripes) {
    const std::int64_t i = row * p.hidden + col;
    sum.add(column_product(value_at(p.x, p.dtype, i), value_at(p.dy, p.dtype, i), p.rstd[row]));
  }
  __shared__ double values[kStripes][kColumns];
  __shared__ double sizes[kStripes][kColumns];
  values[threadIdx.y][threadIdx.x] = sum.value;
  sizes[threadIdx.y][threadIdx.x] = sum.size;
  __syncthreads();
  if (threadIdx.y > 0 || col >= p.hidden) return;
  for (int stripe = 1; stripe < kStripes; ++stripe) {
    sum.value += values[stripe][threadIdx.x];
    sum.size += sizes[stripe][threadIdx.x];
  }
  sums[col] = sum;
}

int blocks_for(const BackwardProblem& p) {
  return std::min(p.rows, 1 << 16);
}

}  // namespace

cudaError_t launch_rstd(const BackwardProblem& p, float eps, float* rstd, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  compute_rstd<<<blocks_for(p), kThreads, 0, stream>>>(p, eps, rstd);
  return cudaGetLastError();
}

cudaError_t launch_compare_dx(
    const BackwardProblem& p, double bound, DeviceFindings* findings, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  compare_dx<<<blocks_for(p), kThreads, 0, stream>>>(p, bound, findings);
  return cudaGetLastError();
}

cudaError_t launch_column_sums(const BackwardProblem& p, SignedSum* sums, cudaStream_t stream) {
  column_sums<<<(p.hidden - 1) / kColumns + 1, dim3(kColumns, kStripes), 0, stream>>>(p, sums);
  return cudaGetLastError();
}

}  // namespace rmsnorm
