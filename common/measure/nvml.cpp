#include "common/measure/nvml.hpp"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include "common/base/cuda_check.hpp"

namespace rmsnorm {
namespace {

constexpr int kSuccess = 0;

/// NVML, open until the program ends.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
    const auto init = find<int()>("nvmlInit_v2");
    is_ready_ = init != nullptr && init() == kSuccess;
  }
  ~Nvml() {
    const auto shutdown = find<int()>("nvmlShutdown");
    if (is_ready_ && shutdown != nullptr) shutdown();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// A function; null where it cannot be called.
  template <class Function>
  Function* function(const char* name) const {
    return is_ready_ ? find<Function>(name) : nullptr;
  }

 private:
  template <class Function>
  Function* find(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library_, name));
  }

  void* library_;
  bool is_ready_ = false;
};

const Nvml& nvml() {
  static const Nvml only;
  return only;
}

/// NVML's handle of CUDA's device 0; null if it has none. NVML counts all GPUs of the machine, CUDA
/// those that CUDA_VISIBLE_DEVICES names: what both know is the place on the bus.
void* find_device() {
  const auto get = nvml().function<int(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
  if (get == nullptr) return nullptr;
  char place[32] = {};
  cuda_check(
      cudaDeviceGetPCIBusId(place, sizeof place, 0), "asking for the GPU's place on the bus");
  void* device = nullptr;
  return get(place, &device) == kSuccess ? device : nullptr;
}

using Reasons = int(void* device, unsigned long long* reasons);

/// The function has a new name since drivers of 2023; null if it has neither.
Reasons* find_reasons() {
  Reasons* const found = nvml().function<Reasons>("nvmlDeviceGetCurrentClocksEventReasons");
  if (found != nullptr) return found;
  return nvml().function<Reasons>("nvmlDeviceGetCurrentClocksThrottleReasons");
}

}  // namespace

std::optional<std::string> driver_version_of_nvml() {
  const auto get = nvml().function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  char text[96] = {};
  if (get == nullptr || get(text, sizeof text) != kSuccess) return std::nullopt;
  return text;
}

std::optional<unsigned long long> reasons_for_lower_clocks() {
  static void* const device = find_device();
  static Reasons* const get = find_reasons();
  unsigned long long reasons = 0;
  if (device == nullptr || get == nullptr || get(device, &reasons) != kSuccess) {
    return std::nullopt;
  }
  return reasons;
}

}  // namespace rmsnorm
