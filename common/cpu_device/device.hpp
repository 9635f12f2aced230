#pragma once
/// \file
/// The CPU device: all that belongs to it, in one object. Functions that a kernel or a program
/// calls by name (CUDA's, the compiler's, and those of the harness) find it by device(); what they
/// call has what it needs from there.

#include "common/cpu_device/runtime/runtime.hpp"
#include "common/cpu_device/scheduler/grid.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"
#include "common/cpu_device/watch/watcher.hpp"

namespace rmsnorm::cpu_device {

/// The device's parts.
struct Device {
  Device() { grid.observe(watch); }  ///< with the watcher as its observer

  SharedMemory shared;           ///< of the block that runs
  GridRunner grid{shared};       ///< runs blocks
  Runtime runtime{grid};         ///< memory, streams, launches and errors
  Watcher watch{grid, runtime};  ///< sees what is wrong, and counts
};

/// The program has one.
Device& device();

}  // namespace rmsnorm::cpu_device
