#pragma once
/// \file
/// The roof that matters: how fast as many bytes can be moved in the same run, by a kernel that
/// computes nothing.

#include <cuda_runtime.h>

#include <optional>
#include <string>
#include <vector>

#include "common/contract/regime.hpp"
#include "common/measure/move.hpp"
#include "common/records/result.hpp"
#include "common/tensors/workload.hpp"

namespace rmsnorm {

/// Bytes per second as GB/s, from bytes and microseconds (1 GB = 10^9 bytes).
inline double gbps(double bytes, double microseconds) {
  return bytes / microseconds / 1e3;
}

/// What an operation has to move of a set: its matrices, and of one in pieces, the first.
std::vector<Stream> streams_of(const Workload& workload, int set);

/// Bytes read to bytes written: "2:1".
std::string ratio_of(const std::vector<Stream>& streams);

/// How fast a set's bytes were moved.
struct Roof {
  std::string name;                      ///< the ratio
  double gbps;                           ///< bytes read and bytes written both count
  std::optional<Disturbance> disturbed;  ///< as in a Timing
};

/// The fastest way known to move as much as the operation reads and writes, in the same ratio:
/// one of the ways of move_streams(), with launches that overlap where the GPU lets them, or, of x
/// to y alone, cudaMemcpyAsync. \throws CudaError
Roof measure_roof(const Workload& workload, Cache cache, double min_seconds);

}  // namespace rmsnorm
