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

// One file each, tests/ordinary/NAME.cu.
std::vector<Ordinary> language_kernels();
std::vector<Ordinary> libraries_kernels();
std::vector<Ordinary> cub_kernels();
std::vector<Ordinary> runtime_kernels();
std::vector<Ordinary> ptx_kernels();
std::vector<Ordinary> grid_kernels();

}  // namespace tests
