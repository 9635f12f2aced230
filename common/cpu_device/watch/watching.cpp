/// \file
/// The CPU device, watched.

#include "common/cpu_device/interface/watching.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/device.hpp"
#include "common/cpu_device/device.hpp"
#include "common/cpu_device/interface/sampling.hpp"
#include "common/cpu_device/runtime/crash.hpp"
#include "common/cpu_device/runtime/device_memory.hpp"

namespace rmsnorm {

using cpu_device::device;

bool is_cpu_device() {
  return true;
}

std::string cuda_version() {
  return "";
}

void set_multiprocessors(int count) {
  device().grid.set_multiprocessors(count > 0 ? count : cpu_device::kMultiprocessors);
}

void set_registers(const std::string& symbol, int count) {
  device().runtime.launches.set_registers(symbol, count);
}

bool take_asked_for_multiprocessors() {
  return std::exchange(device().runtime.asked_for_multiprocessors, false);
}

bool can_watch() {
#ifdef RMSNORM_CPU_WATCHES
  return true;
#else
  return false;
#endif
}

void start_watching(std::vector<KnownMemory> tensors, bool records_steps) {
  if (can_watch()) device().watch.start(std::move(tensors), records_steps);
}

LaunchCounts stop_watching() {
  return can_watch() ? device().watch.stop() : LaunchCounts{};
}

void watch_host(bool watched) {
  static std::optional<cpu_device::CrashGuard> guard;
  guard.reset();
  if (watched) guard.emplace(device().watch, cpu_device::Code::host);
  device().watch.watch_host(watched);
}

std::string take_failed_call() {
  return device().runtime.errors.take_refused();
}

HostCalls host_calls() {
  const cpu_device::Runtime& runtime = device().runtime;
  return {
      .waits = runtime.streams.waits(),
      .allocations = static_cast<std::int64_t>(runtime.memory.count()),
      .handles = runtime.streams.handles(),
      .queued = runtime.streams.queued()};
}

void limit_clusters(int blocks, int error) {
  device().runtime.launches.limit_clusters(blocks, static_cast<cudaError_t>(error));
}

void change_order(bool changed, CUstream_st* given) {
  device().grid.change_order(changed);
  device().runtime.streams.set_eager(changed, given);
}

std::vector<std::string> take_hazards() {
  std::vector<std::string> texts;
  for (const cpu_device::Hazard& hazard : device().watch.hazards().take()) {
    texts.push_back(hazard.text());
  }
  return texts;
}

void say_before_crash(const std::string& text) {
  cpu_device::say_before_crash(text);
}

void start_sampling(std::uint64_t least_blocks) {
  device().grid.sampler().start(least_blocks);
}

Sample stop_sampling() {
  return device().grid.sampler().stop();
}

void* repeat_in_device_memory(std::size_t bytes, const std::vector<std::byte>& pattern) {
  const int file = memfd_create("pattern", 0);
  if (file < 0) return nullptr;
  char* const data = write(file, pattern.data(), pattern.size()) == std::ssize(pattern)
                         ? cpu_device::take_addresses(bytes)
                         : nullptr;
  bool is_there = data != nullptr;
  for (std::size_t at = 0; at < bytes && is_there; at += pattern.size()) {
    is_there = mmap(
                   data + at, std::min(pattern.size(), bytes - at), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file, 0) != MAP_FAILED;
  }
  close(file);
  return is_there ? data : nullptr;
}

}  // namespace rmsnorm
