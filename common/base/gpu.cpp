/// \file
/// A GPU: kernels run on it, and cannot be watched from here.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "common/base/coverage.hpp"
#include "common/base/device.hpp"
#include "common/base/watching.hpp"

namespace rmsnorm {

bool is_cpu_device() {
  return false;
}

std::string cuda_version() {
  return fmt::format("{}.{}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

bool can_watch() {
  return false;
}

void start_watching(std::vector<KnownMemory>) {}

LaunchCounts stop_watching() {
  return {};
}

void watch_host(bool) {}

HostCalls host_calls() {
  return {};
}

void change_order(bool, CUstream_st*) {}

std::vector<std::string> take_hazards() {
  return {};
}

bool can_cover() {
  return false;
}

void forget_comparisons() {}

void cover(int) {}

std::vector<std::size_t> places_run() {
  return {};
}

std::vector<Threshold> thresholds_not_crossed() {
  return {};
}

}  // namespace rmsnorm
