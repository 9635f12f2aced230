#pragma once
/// \file
/// The clock: how long one launch takes on the GPU, and how sure we are.
///
/// Launches are recorded in a CUDA graph, one after the other, and CUDA events time replays of the
/// whole graph. So a launch takes the time that the GPU needs for it, not the CPU to ask for it.
///
/// A cold L2 is had by rotation: each launch of the graph works on another set of tensors, and all
/// sets together are several times the size of the cache. When a set's turn comes again, nothing of
/// it is left there. Nothing has to be flushed, and no flush can leak into the timed span.
///
/// While the GPU works, NVML is asked what holds its clocks down: see calm.hpp.

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <optional>

#include "common/contract/regime.hpp"
#include "common/records/result.hpp"

namespace rmsnorm {

/// Time of one launch, from many samples.
struct Timing {
  double median_us;   ///< microseconds
  double spread_pct;  ///< half the distance from the 10th to the 90th percentile, % of the median
  int samples;        ///< replays of the graph
  std::optional<Disturbance> disturbed = {};  ///< in each repeat
};

/// Enqueues one launch on tensors of the given set.
using LaunchOnSet = std::function<cudaError_t(int set, cudaStream_t stream)>;

/// Sets of tensors that make the L2 cold by rotation: four times the cache's size, at least two. A
/// set alone would find in the cache what its last launch has left there, however large it is.
/// Of tiny problems not even the most sets that there can be are larger than the cache: check.
int sets_for_cold_cache(std::size_t bytes_of_one_set, std::size_t l2_bytes);

/// Times a launch: over `sets` sets in turn if the cache is to be cold, over set 0 if warm.
/// Replays until the samples took min_seconds; up to three times as long while they are noisy. What
/// is disturbed is timed again after a while.
/// \throws CudaError
Timing time_launch(const LaunchOnSet& launch, Cache cache, int sets, double min_seconds);

}  // namespace rmsnorm
