#pragma once
/// \file
/// What a run will do, before it does it.

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/contract/regime.hpp"
#include "common/measure/gpu.hpp"
#include "common/programs/options.hpp"
#include "common/tensors/workload.hpp"

namespace rmsnorm {

/// Implementations of one operation that are tried on the same tensors.
struct Job {
  const Operation* operation;                   ///< theirs
  std::vector<Implementation> implementations;  ///< one at least
  std::string regime;                           ///< its name
  WorkloadSpec spec;                            ///< of the tensors: of a shape that fits
  std::vector<Cache> caches;                    ///< in which it is timed; empty: it is not
  std::string not_cold;  ///< why it is not timed with a cold L2, as a remark; "" if it can be
  bool has_fewer_rows;   ///< than the regime
};

/// The memory cannot hold the tensors of a problem that the reader asked for.
struct TooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a run will do.
struct Schedule {
  std::vector<Job> jobs;           ///< in this order
  std::vector<std::string> notes;  ///< sentences on what is left out, and why
};

/// The schedule for these options; without a GPU, only of what runs on the CPU.
///
/// Regimes shrink until two sets of their tensors fit the GPU's memory, and to what the CPU device
/// has done in a moment. A problem of the reader's own has to fit, once: then it is not timed with
/// a cold L2. \throws TooLarge
Schedule make_schedule(const Options& options, const std::optional<Gpu>& gpu);

/// A regime's shape for an operation on this device. A row of several heads counts as so many. On
/// the CPU device, a run of the lessons alone has fewer rows: none of them gives each row to one
/// thread, as a variant does.
Shape shape_here(
    const Options& options, const Operation& operation, const Regime& regime, Shape wanted);

}  // namespace rmsnorm
