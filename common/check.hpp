#pragma once
/// \file
/// Checks kernels of a reader's own: right on every shape of a sweep, without mistakes that the
/// device sees, and with the traffic that they predict.

#include <vector>

#include "common/lesson.hpp"
#include "common/workload.hpp"

namespace rmsnorm {

/// The problems of the sweep, in its order; to be set up in the lesson's memory.
std::vector<WorkloadSpec> problems_to_check();

/// Checks the lessons and prints a line for each, or the first failure of one in plain words.
/// Returns an ExitCode (options.hpp): 0 if all is well.
int check_lessons(const std::vector<Lesson>& lessons);

}  // namespace rmsnorm
