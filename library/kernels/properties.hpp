#pragma once
/// \file
/// What a launch has to know of its GPU.

#include <cuda_runtime.h>

namespace rmsnorm::kernels {

/// The properties of the current device, which stay for ever. CUDA is asked once for each device:
/// it takes longer to answer than to launch a kernel. Returns what the CUDA calls returned.
cudaError_t properties_of_device(const cudaDeviceProp** properties);

}  // namespace rmsnorm::kernels
