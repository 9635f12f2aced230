/// \file
/// The CPU device, watched.

#include "common/base/watching.hpp"

#include <optional>
#include <utility>

#include "common/base/device.hpp"
#include "common/cpu_device/crash.hpp"
#include "common/cpu_device/grid.hpp"
#include "common/cpu_device/hazard.hpp"
#include "common/cpu_device/memory.hpp"
#include "common/cpu_device/watcher.hpp"

namespace rmsnorm {

bool is_cpu_device() {
  return true;
}

std::string cuda_version() {
  return "";
}

void set_multiprocessors(int count) {
  cpu_device::multiprocessors = count > 0 ? count : cpu_device::kMultiprocessors;
}

void set_registers(const std::string& symbol, int count) {
  cpu_device::set_registers(symbol, count);
}

bool take_asked_for_multiprocessors() {
  return std::exchange(cpu_device::asked_for_multiprocessors, false);
}

bool can_watch() {
#ifdef RMSNORM_CPU_WATCHES
  return true;
#else
  return false;
#endif
}

void start_watching(std::vector<KnownMemory> tensors, bool records_steps) {
  if (can_watch()) cpu_device::watcher().start(std::move(tensors), records_steps);
}

LaunchCounts stop_watching() {
  return can_watch() ? cpu_device::watcher().stop() : LaunchCounts{};
}

void watch_host(bool watched) {
  static std::optional<cpu_device::CrashGuard> guard;
  guard.reset();
  if (watched) guard.emplace(cpu_device::Code::host);
  cpu_device::Watcher::watch_host(watched);
}

std::string take_failed_call() {
  return cpu_device::take_failed_call();
}

HostCalls host_calls() {
  return cpu_device::host_calls();
}

void limit_clusters(int blocks, int error) {
  cpu_device::limit_clusters(blocks, static_cast<cudaError_t>(error));
}

void change_order(bool changed, CUstream_st* given) {
  cpu_device::grid_runner().change_order(changed);
  cpu_device::let_others_hurry(changed, given);
}

std::vector<std::string> take_hazards() {
  std::vector<std::string> texts;
  for (const cpu_device::Hazard& hazard : cpu_device::hazards().take()) {
    texts.push_back(hazard.text());
  }
  return texts;
}

}  // namespace rmsnorm
