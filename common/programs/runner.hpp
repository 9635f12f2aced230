#pragma once
/// \file
/// Verifies and times what was scheduled, and hands over what it finds.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/measure/gpu.hpp"
#include "common/programs/schedule.hpp"
#include "common/records/result.hpp"
#include "common/verify/watched.hpp"

namespace rmsnorm {

/// The CPU device watches problems up to this many elements: a larger one takes it too long.
constexpr std::int64_t kElementsToWatch = std::int64_t{1} << 22;

/// A result, and what is to be said of it.
struct Finding {
  Result result;                          ///< as it is recorded
  std::string remark = {};                ///< why it is as it is; "" if there is nothing to say
  std::vector<std::string> hazards = {};  ///< what the CPU device saw
};

/// Who is told what a run finds, as soon as it is found.
struct Listener {
  std::function<void(const Finding&)> found;    ///< a result
  std::function<void(const Watched&)> counted;  ///< what the CPU device counted in a launch
  std::function<void()> job_done;               ///< after the last of a job
};

/// Does one job: verifies all its implementations, then times those that are right. A fault that
/// costs us the GPU is first handed over as the implementation's failure.
/// \throws CudaError, or std::bad_alloc
void run_job(
    const Job& job, const std::optional<Gpu>& gpu, double min_seconds, const Listener& listener);

}  // namespace rmsnorm
