#pragma once
/// \file
/// A launch that may overlap the end of the kernel before it, and may have clusters.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "library/kernels/properties.hpp"

namespace rmsnorm::kernels {

/// How many rows ahead of its own a block is to ask for one (prefetch_ahead() in row.cuh), where
/// the blocks of an SM are too few to hide how long a load takes: those of 16 KiB for each SM, so
/// that they are there in time. Four times as many made launches slower. 0 if a launch reads no
/// more than the L2 cache holds, or after an error.
inline int rows_ahead(std::int64_t row_bytes, std::int64_t rows) {
  constexpr std::int64_t kMuch = 16000000, kAhead = 16 << 10;  // bytes
  const cudaDeviceProp* device = nullptr;
  if (row_bytes * rows < kMuch || properties_of_device(&device) != cudaSuccess) return 0;
  return static_cast<int>(device->multiProcessorCount * kAhead / row_bytes);
}

/// Enqueues a kernel on the stream of the current device, in columns * lines blocks, `cluster` of
/// which, neighbours in a line, are a cluster; nothing if there are none. Returns what the CUDA
/// calls returned; cudaErrorInvalidConfiguration also for more blocks than a grid can have. From
/// Hopper on, the grid may be set up while the kernel before it in the stream still runs; the
/// kernel has to call wait_for_inputs(), which waits for that one's end.
template <class... Parameters>
cudaError_t launch_overlapping(
    void (*kernel)(Parameters...), std::int64_t columns, std::int64_t lines, int cluster,
    dim3 threads, int shared_bytes, cudaStream_t stream,
    const std::type_identity_t<Parameters>&... arguments) {
  if (columns == 0 || lines == 0) return cudaSuccess;  // a grid of no blocks is an error
  if (columns > 0x7fffffff || lines > 0xffff) return cudaErrorInvalidConfiguration;
  const cudaDeviceProp* device = nullptr;
  const cudaError_t error = properties_of_device(&device);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(columns), static_cast<unsigned>(lines));
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = device->major < 9 ? 0 : cluster == 1 ? 1 : 2;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace rmsnorm::kernels
