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

StepLimit::StepLimit(std::uint64_t, std::function<void(const std::string&)>) {}

StepLimit::~StepLimit() {}

bool Sample::has_stored(const void*, std::size_t) const {
  return false;
}

/// A function that does nothing, and gives false, null or what is empty.
#define RMSNORM_ABSENT(Result, function, ...) \
  Result function(__VA_ARGS__) {              \
    using Nothing = Result;                   \
    return Nothing();                         \
  }
RMSNORM_ABSENT(void, set_multiprocessors, int)
RMSNORM_ABSENT(void, set_registers, const std::string&, int)
RMSNORM_ABSENT(bool, take_asked_for_multiprocessors)
RMSNORM_ABSENT(bool, can_watch)
RMSNORM_ABSENT(void, start_watching, std::vector<KnownMemory>, bool)
RMSNORM_ABSENT(LaunchCounts, stop_watching)
RMSNORM_ABSENT(void, watch_host, bool)
RMSNORM_ABSENT(HostCalls, host_calls)
RMSNORM_ABSENT(std::string, take_failed_call)
RMSNORM_ABSENT(void, say_before_crash, const std::string&)
RMSNORM_ABSENT(RunOrder, run_order, int)
RMSNORM_ABSENT(void, change_order, const RunOrder&, CUstream_st*)
RMSNORM_ABSENT(void, limit_clusters, int, int)
RMSNORM_ABSENT(std::vector<std::string>, take_notes)
RMSNORM_ABSENT(std::vector<std::string>, take_old_loads)
RMSNORM_ABSENT(std::vector<std::string>, take_hazards)
RMSNORM_ABSENT(void, start_sampling, std::uint64_t)
RMSNORM_ABSENT(Sample, stop_sampling)
RMSNORM_ABSENT(void*, repeat_in_device_memory, std::size_t, const std::vector<std::byte>&)
RMSNORM_ABSENT(bool, can_cover)
RMSNORM_ABSENT(void, forget_comparisons)
RMSNORM_ABSENT(void, pack_comparisons, Packed&)
RMSNORM_ABSENT(void, add_comparisons, Packed&)
RMSNORM_ABSENT(void, mark_covered, std::size_t)
RMSNORM_ABSENT(void, cover, int)
RMSNORM_ABSENT(void, note_comparisons, bool)
RMSNORM_ABSENT(std::vector<std::size_t>, covered_places)
RMSNORM_ABSENT(std::vector<Threshold>, thresholds_not_crossed)
RMSNORM_ABSENT(std::vector<int>, numbers_in_sources, const std::vector<std::size_t>&)
RMSNORM_ABSENT(std::vector<SizeTest>, size_tests)
RMSNORM_ABSENT(std::string, cover_apart, int, const std::function<std::string(int)>&)
RMSNORM_ABSENT(void, let_call_fail, int)
RMSNORM_ABSENT(std::string, call_that_failed)
RMSNORM_ABSENT(std::vector<Lines>, lines_never_run, bool)
#undef RMSNORM_ABSENT

}  // namespace rmsnorm
