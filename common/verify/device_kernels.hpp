#pragma once
/// \file
/// The harness's own kernels, as functions that C++ files can call. (What uses {fmt} stays out of
/// the .cu files: nvcc cannot compile its compile-time checks of format strings.)

#include <cuda_runtime.h>

#include <cstddef>

#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// What a comparison on the device leaves behind.
struct DeviceFindings {
  unsigned long long first_wrong;     ///< the smallest index into y that is wrong
  unsigned long long first_sum;       ///< likewise into the residual
  unsigned long long max_error_bits;  ///< of a double >= 0: the bits are in the order of the values
};

/// DeviceFindings::first_wrong, or first_sum, if every element is right.
constexpr unsigned long long kNothingWrong = ~0ull;

/// Starts a kernel that does nothing: that it starts shows that this program has code for the GPU.
cudaError_t launch_probe(cudaStream_t stream);

/// Compares y with an fp64 reference, within the relative bound of fp32 arithmetic, and the
/// residual, if there is one, with its sum; all pointers in device memory.
cudaError_t launch_compare_rows(
    const TypedProblem& problem, const void* residual_before, double bound,
    DeviceFindings* findings, cudaStream_t stream);

/// Adds to *sum (in device memory) a hash of the data, in words of 4 bytes, or of 2 if it is not
/// made of such, and of their places.
cudaError_t launch_hash(
    const void* data, std::size_t bytes, unsigned long long* sum, cudaStream_t stream);

}  // namespace rmsnorm
