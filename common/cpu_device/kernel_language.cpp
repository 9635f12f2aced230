/// \file
/// What the built-in functions of a kernel lead to.

#include "common/cpu_device/kernel_language.hpp"

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/observer.hpp"

namespace rmsnorm::cpu_device {

void barrier(const char* file, int line) {
  running->barrier({file, line});
}

void sync_lanes(std::uint32_t mask, const char* file, int line) {
  running->meet(Meeting::sync, mask, 0, 0, {file, line});
}

std::uint32_t shuffle(
    std::uint32_t mask, std::uint32_t value, int source, const char* file, int line) {
  return running->meet(Meeting::shuffle, mask, value, source, {file, line});
}

std::uint32_t ballot(std::uint32_t mask, bool value, const char* file, int line) {
  return running->meet(Meeting::ballot, mask, value ? 1 : 0, 0, {file, line});
}

int lane() {
  return running->lane();
}

void report_distance(int distance, const char* file, int line) {
  running->report_distance(distance, {file, line});
}

void touch_atomically(const void* caller, const void* address, int bytes) {
  observer().access({caller, address, bytes, Touch::atomic});
}

}  // namespace rmsnorm::cpu_device
