#pragma once
/// \file
/// One launch of an implementation, with all that can go wrong without a look at the result.

#include <string>
#include <vector>

#include "common/base/observation.hpp"
#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// Whether a launch is to be observed.
enum class Watch {
  no,   ///< it only runs
  yes,  ///< what it does is counted, where the device can
};

/// What became of a launch.
struct WatchedLaunch {
  std::string complaint = {};             ///< one sentence; empty if all is well
  std::vector<std::string> hazards = {};  ///< the device's complaints, of which that is the first
  Observation observation = {};           ///< what was counted, if it was watched
};

/// Launches the implementation on the stream, and waits for the end. A CUDA error that leaves the
/// GPU usable is a complaint. `known` is what the kernel may touch of global memory.
/// \throws CudaError with the slug, if the GPU cannot be used any more
WatchedLaunch launch_and_wait(
    const Implementation& implementation, const Problem& problem, std::vector<KnownMemory> known,
    cudaStream_t stream, Watch watch);

/// While it lives, blocks run in another order, where the device has one: CUDA promises none, and a
/// result must not depend on it.
struct ReversedBlocks {
  ReversedBlocks() { reverse_blocks(true); }
  ~ReversedBlocks() { reverse_blocks(false); }
  ReversedBlocks(const ReversedBlocks&) = delete;
  ReversedBlocks& operator=(const ReversedBlocks&) = delete;
};

}  // namespace rmsnorm
