#pragma once
/// \file
/// Verifies and times what was scheduled, and hands over what it finds.

#include <optional>

#include "common/measure/gpu.hpp"
#include "common/programs/output.hpp"
#include "common/programs/schedule.hpp"

namespace rmsnorm {

/// Does one job: verifies all its implementations, then times those that are right; results and
/// counts go to the output, which is saved at the end. A fault that costs us the GPU is first added
/// as the implementation's failure. \throws CudaError
/// \throws std::bad_alloc
/// \throws std::runtime_error
void run_job(const Job& job, const std::optional<Gpu>& gpu, double min_seconds, Output& output);

}  // namespace rmsnorm
