#pragma once
/// \file
/// Decides whether a lesson's backward pass is right, and always the same.

#include "common/tensors/backward_workload.hpp"
#include "common/verify/verifier.hpp"

namespace rmsnorm {

/// Runs the lesson twice on set 0 of the workload, in a workspace of its own, and checks everything
/// both times, as verify() does for a forward pass: each element of dx and of dweight, and all
/// memory that must stay as it is. Both launches have to leave the same bits.
/// \throws CudaError likewise
Verification verify(
    const Lesson& lesson, const BackwardWorkload& workload, cudaStream_t stream = nullptr,
    Watch watch = Watch::no);

/// Compares dx and dweight with the reference, on the host or on the device; both find the same.
Verification compare_on_host(const BackwardProblem& problem, int row_depth, int column_depth);
/// The same on the device. \throws CudaError
Verification compare_on_device(const BackwardProblem& problem, int row_depth, int column_depth);

}  // namespace rmsnorm
