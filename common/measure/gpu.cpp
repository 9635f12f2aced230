#include "common/measure/gpu.hpp"

#include <fmt/format.h>

#include "common/base/cuda_check.hpp"
#include "common/base/device.hpp"
#include "common/measure/move.hpp"
#include "common/measure/nvml.hpp"

namespace rmsnorm {
namespace {

int attribute(cudaDeviceAttr which) {
  int value = 0;
  cuda_check(cudaDeviceGetAttribute(&value, which, 0), "asking for a property of the GPU");
  return value;
}

std::string driver_version() {
  if (const auto version = driver_version_of_nvml()) return *version;
  int newest_cuda = 0;
  cuda_check(cudaDriverGetVersion(&newest_cuda), "asking for the driver's version");
  return fmt::format("for CUDA {}.{}", newest_cuda / 1000, newest_cuda % 1000 / 10);
}

std::string why_no_gpu(cudaError_t error) {
  if (error == cudaSuccess || error == cudaErrorNoDevice) return "this machine has no NVIDIA GPU";
  if (error == cudaErrorInsufficientDriver) {
    return fmt::format(
        "there is no NVIDIA driver here that is new enough for CUDA {}", cuda_version());
  }
  return fmt::format("the GPU cannot be used ({})", cudaGetErrorString(error));
}

}  // namespace

Gpu find_gpu() {
  // Without a driver this call fails (with more than one code): any error means "no GPU".
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    throw NoGpu(why_no_gpu(error));
  }

  cudaDeviceProp properties;
  cuda_check(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's properties");

  const cudaError_t launched = launch_nothing();
  if (launched == cudaErrorNoKernelImageForDevice || launched == cudaErrorUnsupportedPtxVersion) {
    throw NoGpu(fmt::format(
        "{} (compute capability {}.{}) cannot run this build: configure again with "
        "-DCMAKE_CUDA_ARCHITECTURES={}{} ({})",
        properties.name, properties.major, properties.minor, properties.major, properties.minor,
        cudaGetErrorString(launched)));
  }
  cuda_check(launched, "starting a first kernel");
  cuda_check(cudaDeviceSynchronize(), "running a first kernel");

  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for the free memory");

  const double clock_hz = 1e3 * attribute(cudaDevAttrMemoryClockRate);
  const double bus_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth) / 8.0;
  return Gpu{
      .name = properties.name,
      .driver = driver_version(),
      .multiprocessors = properties.multiProcessorCount,
      .l2_bytes = static_cast<std::size_t>(properties.l2CacheSize),
      .peak_gbps = 2 * clock_hz * bus_bytes / 1e9,
      .free_bytes = free_bytes};
}

}  // namespace rmsnorm
