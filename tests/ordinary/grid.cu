/// \file
/// Blocks that wait for each other: every block sums a row, and scales another one.

#include <cooperative_groups.h>

#include "tests/ordinary/block_sum.cuh"
#include "tests/ordinary/cases.hpp"

namespace tests {
namespace {

constexpr int kHidden = Rows::kHidden;

__device__ float sums[Rows::kRows];
__device__ unsigned arrived;

__device__ void sum_row(const float* x) {
  __shared__ float partial[8];
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  const float sum = block_sum(value * value, partial);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__device__ void scale_next_row(const float* x, float* y) {
  const unsigned row = (blockIdx.x + 1) % Rows::kRows;
  y[row * kHidden + threadIdx.x] = x[row * kHidden + threadIdx.x] * rstd_of(sums[row]);
}

__global__ void with_grid_group(const float* x, float* y) {
  sum_row(x);
  cooperative_groups::this_grid().sync();
  scale_next_row(x, y);
}

/// The same by hand. All blocks must be on the device at the same time.
__global__ void with_counter(const float* x, float* y) {
  sum_row(x);
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(&arrived, 1u);
    while (atomicAdd(&arrived, 0u) < gridDim.x) {
    }
  }
  __syncthreads();
  scale_next_row(x, y);
}

}  // namespace

std::vector<Ordinary> grid_kernels() {
  return {
      {"this_grid().sync()",
       [](Rows rows) {
         void* arguments[] = {&rows.x, &rows.y};
         cudaLaunchCooperativeKernel(with_grid_group, Rows::kRows, kHidden, arguments);
       }},
      {"a counter of blocks that have arrived",
       [](Rows rows) {
         const unsigned none = 0;
         cudaMemcpyToSymbol(arrived, &none, sizeof none);
         with_counter<<<Rows::kRows, kHidden>>>(rows.x, rows.y);
       }},
  };
}

}  // namespace tests
