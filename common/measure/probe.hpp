#pragma once
/// \file
/// Whether this program has code for the GPU.

#include <cuda_runtime.h>

namespace rmsnorm {

/// Starts a kernel that does nothing: that it starts shows that there is code for the GPU.
cudaError_t launch_probe(cudaStream_t stream);

}  // namespace rmsnorm
