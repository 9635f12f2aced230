#pragma once
/// \file
/// Right kernels in the CUDA that people write: each computes an RMSNorm with another construct,
/// and the CPU device has to take it and find nothing wrong.

#include <cuda_runtime.h>

#include <vector>

namespace tests {

/// What each of them works on.
struct Rows {
  static constexpr int kRows = 3;
  static constexpr int kHidden = 256;
  static constexpr float kEps = 1e-5f;
  const float* x;  ///< (kRows, kHidden)
  float* y;        ///< (kRows, kHidden), to become x / sqrt(mean(x * x) + eps)
};

/// A kernel, by the construct that it uses.
struct Ordinary {
  const char* construct;
  void (*launch)(Rows rows);
};

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

// One file each, tests/ordinary/NAME.cu.
std::vector<Ordinary> language_kernels();
std::vector<Ordinary> libraries_kernels();
std::vector<Ordinary> cub_kernels();
std::vector<Ordinary> runtime_kernels();
std::vector<Ordinary> ptx_kernels();
std::vector<Ordinary> grid_kernels();

}  // namespace tests
