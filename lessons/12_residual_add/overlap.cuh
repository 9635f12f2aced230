#pragma once
/// \file
/// The two calls by which launches overlap, as in lesson 11. They need Hopper or later (launch.cu).

#include <cuda_runtime.h>

namespace rmsnorm::residual_add {

/// Waits until what the kernels before this one have written is there.
__device__ inline void wait_for_inputs() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets the next kernel set up its grid, if its launch allows that. It waits for this one's end.
__device__ inline void let_next_begin() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

}  // namespace rmsnorm::residual_add
