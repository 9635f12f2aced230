/// \file
/// A stand-in for NVML, of which every GPU is at its power cap. A program that is started with this
/// library loaded finds it instead of the driver's.

#include <cstdio>

extern "C" {

int nvmlInit_v2() {
  return 0;
}

int nvmlShutdown() {
  return 0;
}

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "of a stand-in");
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** device) {
  static char gpu;
  *device = &gpu;
  return *place == '\0' ? 1 : 0;
}

int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  *reasons = 0x4;
  return device == nullptr ? 1 : 0;
}

}  // extern "C"
