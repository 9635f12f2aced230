#pragma once
/// \file
/// What comes before the kernel of backward.cu, and what behind it.

#include <cuda_runtime.h>

#include "library/kernels/backward_plan.hpp"

namespace rmsnorm::kernels {

using BackwardKernel = void (*)(Backward, BackwardPlan);

/// The kernel for rows that a cluster shares. are_plain: they lie at one distance.
BackwardKernel cluster_kernel(const NestedBackward& op, bool are_plain);

/// Enqueues the computation of each row's mean of g * n, for rows of which a block of the kernel
/// has only a part; nothing if each, or a cluster, has all of its rows.
cudaError_t launch_row_means(
    const NestedBackward& op, const BackwardPlan& plan, cudaStream_t stream);

/// Enqueues the addition of partial sums, (blocks, columns), if a dweight is wanted: it has so many
/// columns. Rounds once.
cudaError_t launch_add_sums(
    const float* sums, int blocks, int columns, void* dweight, Dtype dtype, cudaStream_t stream);

}  // namespace rmsnorm::kernels
