#pragma once
/// \file
/// The kernels of a residual add.

#include "library/kernels/residual_add.hpp"
#include "library/kernels/residual_add_plan.hpp"

namespace rmsnorm::kernels {

using ResidualAddKernel = void (*)(ResidualAdd);

/// The kernel for rows of any length at any address, and for weights of heads. One block does what
/// a cluster would. blockDim is (long_threads(plan), plan.rows).
ResidualAddKernel residual_add_long_kernel(const ResidualAdd& op, const ResidualAddPlan& plan);

/// The kernel for a plan of several blocks: plan.cluster of them share a row. blockDim is
/// plan.threads, with staged_bytes(plan) of shared memory.
ResidualAddKernel residual_add_cluster_kernel(const ResidualAdd& op);

/// The kernel for a plan of unaligned vectors, and for weights of heads, too. blockDim is
/// (plan.threads, plan.rows).
ResidualAddKernel residual_add_unaligned_kernel(const ResidualAdd& op, const ResidualAddPlan& plan);

/// The kernel for a plan that is_mixed.
ResidualAddKernel residual_add_mixed_kernel(const ResidualAdd& op, const ResidualAddPlan& plan);

}  // namespace rmsnorm::kernels
