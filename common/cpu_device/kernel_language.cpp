/// \file
/// What the built-in functions of a kernel lead to.

#include "common/cpu_device/kernel_language.hpp"

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/observer.hpp"
#include "common/cpu_device/shared_memory.hpp"

namespace rmsnorm::cpu_device {

void barrier(const char* file, int line) {
  running->barrier({file, line});
}

void wait_for_kernel_before() {
  observer().kernel_before_ended();
}

void trigger(const char* file, int line) {
  observer().triggered({file, line});
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

bool check_storage(const void* storage, const char* file, int line) {
  if (shared_memory().contains(storage)) return true;
  running->report_storage_outside({file, line});
  return false;
}

void use_warp_storage(const void* storage, const char* file, int line) {
  if (check_storage(storage, file, line)) running->use_warp_storage(storage, {file, line});
}

void touch_atomically(const void* caller, const void* address, int bytes) {
  observer().access({caller, address, bytes, Touch::atomic});
}

}  // namespace rmsnorm::cpu_device
