#pragma once
/// \file
/// The roof that matters: how fast the same bytes can be copied, in the same run.

#include <cuda_runtime.h>

#include "common/contract/regime.hpp"
#include "common/tensors/backward_workload.hpp"
#include "common/tensors/workload.hpp"

namespace rmsnorm {

/// Bytes per second as GB/s, from bytes and microseconds (1 GB = 10^9 bytes).
inline double gbps(double bytes, double microseconds) {
  return bytes / microseconds / 1e3;
}

/// Copies x to y with 16-byte loads and stores, one a thread. Both begin at multiples of 16 bytes.
cudaError_t copy_with_kernel(const TypedProblem& problem, cudaStream_t stream);

/// GB/s of the best copy of x to y: cudaMemcpyAsync or copy_with_kernel, whichever is faster.
/// Bytes read and bytes written both count. \throws CudaError
double measure_copy(const Workload& workload, Cache cache, double min_seconds);
/// The same of x to dx. \throws CudaError
double measure_copy(const BackwardWorkload& workload, Cache cache, double min_seconds);

}  // namespace rmsnorm
