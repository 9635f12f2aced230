/// \file
/// A GPU.

#include "common/base/device.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

namespace rmsnorm {

bool is_cpu_device() {
  return false;
}

std::string cuda_version() {
  return fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

}  // namespace rmsnorm
