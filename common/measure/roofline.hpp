#pragma once
/// \file
/// The roof that matters: how fast as many bytes can be copied, in the same run.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/contract/regime.hpp"
#include "common/records/result.hpp"
#include "common/tensors/workload.hpp"

namespace rmsnorm {

/// Bytes per second as GB/s, from bytes and microseconds (1 GB = 10^9 bytes).
inline double gbps(double bytes, double microseconds) {
  return bytes / microseconds / 1e3;
}

/// Starts a kernel that does nothing: that it starts shows that there is code for the GPU.
cudaError_t launch_nothing();

/// Bytes to copy, an even number, and where to. Both addresses are multiples of 16 bytes; they may
/// be the same.
struct Copy {
  const void* from;    ///< on the device
  void* to;            ///< likewise
  std::int64_t bytes;  ///< 0 or more
};

/// Copies with 16-byte loads and stores, one a thread; in one launch.
cudaError_t copy_with_kernel(const Copy& first, const Copy& second, cudaStream_t stream);

/// How fast a copy was.
struct CopyRate {
  double gbps;                           ///< bytes read and bytes written both count
  std::optional<Disturbance> disturbed;  ///< as in a Timing
};

/// The best copy of the operation's matrices: each input that has an output to go to, in
/// the order of the tensors, by cudaMemcpyAsync or copy_with_kernel, whichever is faster. Where
/// the output has shorter elements, a part of the input is copied, so that as many bytes move as
/// the two have together. \throws CudaError
CopyRate measure_copy(const Workload& workload, Cache cache, double min_seconds);

/// Bytes that measure_copy takes beside such a workload, for what has no room in the output.
std::size_t room_for_copy(const Operation& operation, const WorkloadSpec& spec);

}  // namespace rmsnorm
