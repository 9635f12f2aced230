#pragma once
/// \file
/// The kernels among which a forward launch chooses. One is compiled for each pair of types and
/// each number of vectors that a plan can name.

#include "library/kernels/forward_plan.hpp"

namespace rmsnorm::kernels {

/// A kernel. blockDim is (plan.threads, plan.rows), with plan.staged vectors of shared memory for
/// each thread.
using ForwardKernel = void (*)(Forward, ForwardPlan);

ForwardKernel aligned_kernel(const Forward& op, const ForwardPlan& plan);
ForwardKernel long_rows_kernel(const Forward& op);
/// plan.cluster blocks share a row.
ForwardKernel cluster_kernel(const Forward& op, const ForwardPlan& plan);
/// For a plan that is_fallback: one block does what a cluster would, without shared memory.
/// blockDim is (fallback_threads(plan), plan.rows).
ForwardKernel fallback_kernel(const Forward& op);
ForwardKernel unaligned_kernel(const Forward& op, const ForwardPlan& plan);
ForwardKernel mixed_kernel(const HeadsForward& op);

}  // namespace rmsnorm::kernels
