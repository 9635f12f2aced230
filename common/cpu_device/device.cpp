#include "common/cpu_device/device.hpp"

namespace rmsnorm::cpu_device {

Device& device() {
  static Device device;
  return device;
}

}  // namespace rmsnorm::cpu_device
