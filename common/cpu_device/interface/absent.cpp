/// \file
/// A GPU: kernels run on it, and cannot be watched from here.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "common/base/device.hpp"
#include "common/cpu_device/interface/coverage.hpp"
#include "common/cpu_device/interface/sampling.hpp"
#include "common/cpu_device/interface/watching.hpp"

namespace rmsnorm {

bool is_cpu_device() {
  return false;
}

std::string cuda_version() {
  return fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

void set_multiprocessors(int) {}

void set_registers(const std::string&, int) {}

bool take_asked_for_multiprocessors() {
  return false;
}

bool can_watch() {
  return false;
}

void start_watching(std::vector<KnownMemory>, bool) {}

LaunchCounts stop_watching() {
  return {};
}

void watch_host(bool) {}

HostCalls host_calls() {
  return {};
}

std::string take_failed_call() {
  return "";
}

StepLimit::StepLimit(std::uint64_t, std::function<void(const std::string&)>) {}

StepLimit::~StepLimit() {}

void say_before_crash(const std::string&) {}

RunOrder run_order(int) {
  return {};
}

void change_order(const RunOrder&, CUstream_st*) {}

void limit_clusters(int, int) {}

std::vector<std::string> take_notes() {
  return {};
}

std::vector<std::string> take_old_loads() {
  return {};
}

std::vector<std::string> take_hazards() {
  return {};
}

void start_sampling(std::uint64_t) {}

Sample stop_sampling() {
  return {};
}

bool Sample::has_stored(const void*, std::size_t) const {
  return false;
}

void* repeat_in_device_memory(std::size_t, const std::vector<std::byte>&) {
  return nullptr;
}

bool can_cover() {
  return false;
}

void forget_comparisons() {}

void pack_comparisons(Packed&) {}

void add_comparisons(Packed&) {}

void mark_covered(std::size_t) {}

void cover(int) {}

void note_comparisons(bool) {}

std::vector<std::size_t> covered_places() {
  return {};
}

std::vector<Threshold> thresholds_not_crossed() {
  return {};
}

std::vector<int> numbers_in_sources(const std::vector<std::size_t>&) {
  return {};
}

std::vector<SizeTest> size_tests() {
  return {};
}

std::string cover_apart(int, const std::function<std::string(int)>&) {
  return "";
}

void let_call_fail(int) {}

std::string call_that_failed() {
  return "";
}

std::vector<Lines> lines_never_run(bool) {
  return {};
}

}  // namespace rmsnorm
