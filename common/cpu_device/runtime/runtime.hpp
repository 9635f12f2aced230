#pragma once
/// \file
/// What CUDA remembers between two calls.

#include "common/cpu_device/runtime/errors.hpp"
#include "common/cpu_device/runtime/launches.hpp"
#include "common/cpu_device/runtime/memory.hpp"
#include "common/cpu_device/runtime/streams.hpp"
#include "common/cpu_device/scheduler/grid.hpp"

namespace rmsnorm::cpu_device {

/// The state of the CUDA runtime.
struct Runtime {
  /// Of a device that runs these grids.
  explicit Runtime(GridRunner& grid_) : grid(grid_) {}

  GridRunner& grid;                          ///< runs the kernels
  Errors errors;                             ///< that calls have left
  Memory memory{grid, errors};               ///< that has been allocated
  Streams streams{errors};                   ///< with the work on them, and events
  Launches launches{grid, errors, streams};  ///< and what is known of kernels
  bool asked_for_multiprocessors = false;    ///< whether somebody has
};

}  // namespace rmsnorm::cpu_device
