#pragma once
/// \file
/// The kernels of a norm to 8 bits. blockDim is (plan.threads, plan.rows); a line of the grid has
/// the rows of an outer index.

#include "library/kernels/fp8_plan.hpp"

namespace rmsnorm::kernels {

using Fp8Kernel = void (*)(Fp8Norm, ForwardPlan);

/// The kernel for a shape of Kind::aligned.
Fp8Kernel fp8_aligned_kernel(const Fp8Norm& op, const ForwardPlan& plan);

/// The kernel for a shape of Kind::cluster, with fp8_staged_bytes(op, plan) of shared memory.
Fp8Kernel fp8_cluster_kernel(const Fp8Norm& op, const ForwardPlan& plan);

/// The kernel for all rows, and a weight of any type.
Fp8Kernel fp8_any_kernel(const Fp8Norm& op);

}  // namespace rmsnorm::kernels
