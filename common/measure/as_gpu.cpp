/// \file
/// The CPU device, described as the harness describes a GPU.

#include <cuda_runtime.h>

#include "common/measure/gpu.hpp"
#include "common/measure/nvml.hpp"

namespace rmsnorm {

Gpu find_gpu() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  return Gpu{
      .name = properties.name,
      .driver = "",
      .multiprocessors = properties.multiProcessorCount,
      .l2_bytes = 0,
      .peak_gbps = 0,
      .free_bytes = free_bytes};
}

std::optional<unsigned long long> reasons_for_lower_clocks() {
  return std::nullopt;
}

}  // namespace rmsnorm
