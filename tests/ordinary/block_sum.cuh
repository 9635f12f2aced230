#pragma once
/// \file
/// What each of the kernels does apart from the construct that it is about.

#include "tests/ordinary/cases.hpp"

namespace tests {

/// The sum of a block of Rows::kHidden threads, in the plainest way.
__device__ inline float block_sum(float value, float* partial) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < Rows::kHidden / 32; ++warp) sum += partial[warp];
  return sum;
}

/// What a row is multiplied by.
__device__ inline float rstd_of(float sum) {
  return rsqrtf(sum / Rows::kHidden + Rows::kEps);
}

/// One block for each row, of so many threads.
template <void kernel(const float*, float*), int kThreads = Rows::kHidden>
void launch(Rows rows) {
  void* arguments[] = {&rows.x, &rows.y};
  cudaLaunchKernel(kernel, Rows::kRows, kThreads, arguments, 0, nullptr);
}

}  // namespace tests
