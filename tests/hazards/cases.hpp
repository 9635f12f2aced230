#pragma once
/// \file
/// Kernels with a mistake each, and the same kernels without it.

#include <cuda_runtime.h>

#include <string>
#include <vector>

namespace tests {

/// What the kernels work on: two tensors in global memory, with guards around them.
struct Memory {
  static constexpr int kElements = 1002;
  const float* x;  ///< (kElements)
  float* y;        ///< (kElements)
};

/// One mistake.
///
/// Lines are named by a comment at their end, "// <-- TAG", that is looked up in the source.
struct Case {
  std::string name;
  void (*wrong)(Memory memory);     ///< launches the kernel with the mistake
  void (*right)(Memory memory);     ///< and without
  std::string kernel;               ///< "gather<false"; template arguments may be left out
  std::string at;                   ///< TAG of the line where the mistake shows; "" if it has none
  std::string other;                ///< TAG of the second line that the text names, or ""
  std::string block;                ///< as the text has it: "0", "(1, 2, 0)"
  std::string thread;               ///< the same
  std::vector<std::string> says;    ///< parts of the text
  cudaError_t error = cudaSuccess;  ///< that the wrong one leaves for the next synchronise
};

// One file each, tests/hazards/NAME.cu.
std::vector<Case> race_cases();
std::vector<Case> barrier_cases();
std::vector<Case> shuffle_cases();
std::vector<Case> temp_storage_cases();
std::vector<Case> unwritten_cases();
std::vector<Case> bounds_cases();
std::vector<Case> alignment_cases();
std::vector<Case> overlap_cases();

}  // namespace tests
