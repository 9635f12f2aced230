#pragma once
/// \file
/// A launch that may overlap the end of the kernel before it.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace rmsnorm::kernels {

/// Enqueues a kernel on the stream of the current device, in columns * lines blocks; nothing if
/// there are none. Returns what the CUDA calls returned; cudaErrorInvalidConfiguration also for
/// more blocks than a grid can have. From Hopper on, the grid may be set up while the kernel before
/// it in the stream still runs; the kernel has to call wait_for_inputs(), which waits for that
/// one's end.
template <class... Parameters>
cudaError_t launch_overlapping(
    void (*kernel)(Parameters...), std::int64_t columns, std::int64_t lines, dim3 threads,
    int shared_bytes, cudaStream_t stream, const std::type_identity_t<Parameters>&... arguments) {
  if (columns == 0 || lines == 0) return cudaSuccess;  // a grid of no blocks is an error
  if (columns > 0x7fffffff || lines > 0xffff) return cudaErrorInvalidConfiguration;
  int device = 0;
  int major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(columns), static_cast<unsigned>(lines));
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace rmsnorm::kernels
