#include "library/kernels/tuned.hpp"

#include <cuda_runtime.h>

#include <mutex>

#include "plans.hpp"

namespace rmsnorm::kernels {
namespace {

constexpr int kMaxDevices = 64;  // more have no table

/// A device's name; empty if there is none. To ask for it takes longer than most launches.
std::string_view name_of(int device) {
  struct Known {
    std::once_flag asked;
    cudaDeviceProp properties;
  };
  static Known known[kMaxDevices];
  if (device >= kMaxDevices) return "";
  Known& it = known[device];
  std::call_once(it.asked, [&] {
    if (cudaGetDeviceProperties(&it.properties, device) == cudaSuccess) return;
    cudaGetLastError();
    it.properties = {};
  });
  return it.properties.name;
}

}  // namespace

std::optional<ForwardShape> tuned_shape(int device, int element_bytes, int vectors) {
  if (kPlans.empty()) return std::nullopt;
  return find_tuned(kPlans, name_of(device), element_bytes, vectors);
}

}  // namespace rmsnorm::kernels
