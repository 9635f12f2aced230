#pragma once
/// \file
/// A launch that may overlap the end of the kernel before it, and may have clusters.

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "library/kernels/properties.hpp"

namespace rmsnorm::kernels {

/// Prefetch distance: how many rows ahead of its own a block prefetches one (prefetch_ahead() in
/// row.cuh), where the blocks of an SM are too few to hide how long a load takes: those of so many
/// bytes for each SM, so that they are there in time. Most kernels are fastest with 16 KiB, those
/// for 8 bits and with a gate, which work longer on a row, with 32. 0 if a launch reads no more
/// than the L2 cache holds, or after an error.
inline int prefetch_distance(
    std::int64_t row_bytes, std::int64_t rows, std::int64_t bytes = 16 << 10) {
  constexpr std::int64_t kMuch = 16000000;  // bytes
  const cudaDeviceProp* device = nullptr;
  if (row_bytes * rows < kMuch || properties_of_device(&device) != cudaSuccess) return 0;
  return static_cast<int>(device->multiProcessorCount * bytes / row_bytes);
}

/// Prefetching blocks: how many prefetch their rows before they wait (prefetch() in row.cuh): all
/// of a small launch; of others the first, which alone can begin before the wait is over, and of
/// these as many as prefetch 16 KiB on each SM. 0 after an error.
/// \param bytes  that a block reads
inline unsigned prefetching_blocks(std::int64_t bytes, std::int64_t blocks) {
  constexpr std::int64_t kFew = 2 << 20, kPrefetched = 16 << 10;  // bytes
  const cudaDeviceProp* device = nullptr;
  if (bytes * blocks <= kFew) return ~0u;
  if (properties_of_device(&device) != cudaSuccess) return 0;
  return static_cast<unsigned>(device->multiProcessorCount * kPrefetched / bytes);
}

/// The blocks of a launch.
struct Grid {
  std::int64_t x;
  std::int64_t y = 1;
  std::int64_t z = 1;
  int cluster = 1;  ///< so many neighbours along x are a cluster
};

/// Is there no block?
inline bool is_empty(const Grid& grid) {
  return grid.x == 0 || grid.y == 0 || grid.z == 0;
}

/// Does an error of a launch with clusters say that a GPU, or a part of one, does not take them?
/// CUDA has several for that. A launch without clusters may still do.
inline bool is_refused(cudaError_t error) {
  return error == cudaErrorInvalidClusterSize || error == cudaErrorInvalidConfiguration ||
         error == cudaErrorLaunchOutOfResources || error == cudaErrorNotSupported;
}

/// Enqueues a kernel on the stream of the current device; nothing if it has no blocks. Returns what
/// the CUDA calls returned; cudaErrorInvalidConfiguration also for more blocks than a grid can
/// have. From Hopper on, the grid may be set up while the kernel before it in the stream still
/// runs; the kernel has to call wait_for_inputs(), which waits for that one's end.
template <class... Parameters>
cudaError_t launch_overlapping(
    void (*kernel)(Parameters...), const Grid& grid, dim3 block, int shared_bytes,
    cudaStream_t stream, const std::type_identity_t<Parameters>&... arguments) {
  const auto [x, y, z, cluster] = grid;
  if (is_empty(grid)) return cudaSuccess;  // else an error of CUDA's
  if (x > 0x7fffffff || y > 0xffff || z > 0xffff) return cudaErrorInvalidConfiguration;
  const cudaDeviceProp* device = nullptr;
  const cudaError_t error = properties_of_device(&device);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim =
      dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = device->major < 9 ? 0 : cluster == 1 ? 1 : 2;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// Dynamic shared memory of a block that needs no function attribute, beside a kernel's variables.
constexpr int kSharedBytes = 47 << 10;

/// The most that a block of the current device can ask for. Returns what the CUDA calls returned.
inline cudaError_t most_shared_bytes(int* bytes) {
  constexpr int kVariables = 2048;  // bytes of a kernel's own
  const cudaDeviceProp* device = nullptr;
  const cudaError_t error = properties_of_device(&device);
  if (error == cudaSuccess) *bytes = static_cast<int>(device->sharedMemPerBlockOptin) - kVariables;
  return error;
}

/// As launch_overlapping(), for a kernel whose blocks may need more than kSharedBytes. It is then
/// allowed the most that there is, and not what it needs: other threads may launch it meanwhile.
template <class... Parameters>
cudaError_t launch_staged(
    void (*kernel)(Parameters...), const Grid& grid, dim3 block, int shared_bytes,
    cudaStream_t stream, const std::type_identity_t<Parameters>&... arguments) {
  const auto launch = [&] {
    return launch_overlapping(kernel, grid, block, shared_bytes, stream, arguments...);
  };
  if (is_empty(grid) || shared_bytes <= kSharedBytes) return launch();
  int most = 0;
  cudaError_t error = most_shared_bytes(&most);
  const auto* const function = reinterpret_cast<const void*>(kernel);
  if (error == cudaSuccess) error = allow_shared_memory(function, most);
  if (error == cudaSuccess) error = launch();
  if (error != cudaErrorInvalidValue) return error;
  // What CUDA allowed is gone after cudaDeviceReset(): it is asked again, once.
  cudaGetLastError();
  forget_shared_memory();
  error = allow_shared_memory(function, most);
  return error == cudaSuccess ? launch() : error;
}

}  // namespace rmsnorm::kernels
