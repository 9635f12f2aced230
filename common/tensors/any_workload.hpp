#pragma once
/// \file
/// Forward and backward passes alike: what gauntlet and program ask of a lesson and a workload.

#include <string>

#include "common/contract/lesson.hpp"
#include "common/measure/benchmark.hpp"
#include "common/tensors/backward_workload.hpp"
#include "common/tensors/workload.hpp"

namespace rmsnorm {

/// "" if the lesson can do the workload's problem, otherwise one sentence with the reason.
std::string why_refused(const Lesson& lesson, const Workload& workload);
std::string why_refused(const Lesson& lesson, const BackwardWorkload& workload);  ///< likewise

/// What a row of the workload's problem costs by the lesson's own claim.
Traffic predicted_traffic(const Lesson& lesson, const Workload& workload);
Traffic predicted_traffic(const Lesson& lesson, const BackwardWorkload& workload);  ///< likewise

/// The lesson on the workload's sets, to be timed. Both have to outlive it.
LaunchOnSet launch_of(const Lesson& lesson, const Workload& workload);
LaunchOnSet launch_of(const Lesson& lesson, const BackwardWorkload& workload);  ///< likewise

}  // namespace rmsnorm
