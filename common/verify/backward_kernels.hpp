#pragma once
/// \file
/// The harness's kernels for backward passes, as functions that C++ files can call.

#include <cuda_runtime.h>

#include "common/contract/lesson.hpp"
#include "common/operations/backward_reference.hpp"
#include "common/verify/device_kernels.hpp"

namespace rmsnorm {

/// Computes rstd (rows), on the device: of each row of x in fp64, rounded once.
cudaError_t launch_rstd(
    const BackwardProblem& problem, float eps, float* rstd, cudaStream_t stream);

/// Compares dx with the fp64 reference, within the bound (dx_error_bound).
cudaError_t launch_compare_dx(
    const BackwardProblem& problem, double bound, DeviceFindings* findings, cudaStream_t stream);

/// Computes what dweight should be: sums (hidden), on the device.
cudaError_t launch_column_sums(
    const BackwardProblem& problem, SignedSum* sums, cudaStream_t stream);

}  // namespace rmsnorm
