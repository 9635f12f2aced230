/// \file
/// The CPU device, watched.

#include "common/cpu_device/interface/watching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/device.hpp"
#include "common/cpu_device/device.hpp"
#include "common/cpu_device/interface/sampling.hpp"
#include "common/cpu_device/runtime/crash.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/watch/hazard.hpp"

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

RunOrder run_order(int number) {
  if (number == 0) return {};
  return {number, number, number % 2 != 0, true, 0, ~std::uint64_t{0}};
}

void change_order(const RunOrder& order, CUstream_st* given) {
  device().grid.change_order(order);
  device().runtime.streams.set_eager(order.eager_streams, given);
}

std::uint64_t possible_turns() {
  return device().grid.turns();
}

std::vector<std::string> first_turns() {
  std::vector<std::string> texts;
  for (const auto& turn : device().grid.first_turns()) {
    texts.push_back(fmt::format(
        "block {} waits at {}, block {} goes on", cpu_device::text_of(turn.block),
        cpu_device::place_text(cpu_device::line_of_call(turn.pc)), cpu_device::text_of(turn.next)));
  }
  return texts;
}

namespace {

std::vector<std::string> texts_of(cpu_device::Hazards& hazards) {
  std::vector<std::string> texts;
  for (const cpu_device::Hazard& hazard : hazards.take()) texts.push_back(hazard.text());
  return texts;
}

}  // namespace

std::vector<std::string> take_hazards() {
  return texts_of(device().watch.hazards());
}

std::vector<std::string> take_notes() {
  return texts_of(device().watch.notes());
}

std::vector<std::string> take_old_loads() {
  return texts_of(device().watch.old_loads());
}

void say_before_crash(const std::string& text) {
  cpu_device::say_before_crash(text);
}

void start_sampling(std::uint64_t few_blocks) {
  device().grid.sampler().start(few_blocks);
}

Sample stop_sampling() {
  return device().grid.sampler().stop();
}

void* repeat_in_device_memory(std::size_t bytes, const std::vector<std::byte>& pattern) {
  const auto* const begin = reinterpret_cast<const char*>(pattern.data());
  return device().runtime.memory.repeat(bytes, {begin, pattern.size()});
}

}  // namespace rmsnorm
