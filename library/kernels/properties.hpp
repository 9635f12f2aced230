#pragma once
/// \file
/// What a launch has to know of its GPU.

#include <cuda_runtime.h>

namespace rmsnorm::kernels {

/// The properties of the current device, which stay for ever. CUDA is queried once for each device:
/// it takes longer to answer than to launch a kernel. Returns what the CUDA calls returned.
cudaError_t properties_of_device(const cudaDeviceProp** properties);

/// Has the current device clusters of blocks? False after an error, too.
bool has_clusters();

/// Lets a kernel have so many bytes of dynamic shared memory on the current device: for each kernel
/// always the same number. CUDA is queried once for each kernel, device and thread. Returns what
/// the CUDA calls returned.
cudaError_t allow_shared_memory(const void* kernel, int bytes);

/// Lets the next call of that function in this thread ask CUDA again, for any kernel.
void forget_shared_memory();

}  // namespace rmsnorm::kernels
