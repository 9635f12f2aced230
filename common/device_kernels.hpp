#pragma once
/// \file
/// The harness's own kernels, as functions that C++ files can call. (What uses {fmt} stays out of
/// the .cu files: nvcc cannot compile its compile-time checks of format strings.)

#include <cuda_runtime.h>

#include <cstddef>

#include "common/lesson.hpp"

namespace rmsnorm {

/// What a comparison on the device leaves behind.
struct DeviceFindings {
  unsigned long long first_wrong;     ///< the smallest index into y that is wrong
  unsigned long long max_error_bits;  ///< of a double >= 0: the bits are in the order of the values
};

/// DeviceFindings::first_wrong if every element is right.
constexpr unsigned long long kNothingWrong = ~0ull;

/// Starts a kernel that does nothing: that it starts shows that this program has code for the GPU.
cudaError_t launch_probe(cudaStream_t stream);

/// Compares y with an fp64 reference, within the relative bound; all pointers in device memory.
cudaError_t launch_compare_rows(
    const Problem& problem, double bound, DeviceFindings* findings, cudaStream_t stream);

/// Adds to *sum (in device memory) a hash of the floats' bits and places.
cudaError_t launch_hash(
    const float* data, std::size_t size, unsigned long long* sum, cudaStream_t stream);

}  // namespace rmsnorm
