#pragma once
/// \file
/// What comes before the kernel of rms_norm.cu, and what behind it.

#include <cuda_runtime.h>

#include "lessons/13_backward/shape.hpp"

namespace rmsnorm::backward {

/// Enqueues the computation of each row's mean of g * n, for rows of which a block of the kernel
/// has only a part; nothing if each has all of its rows.
cudaError_t launch_row_means(
    const BackwardProblem& problem, const Shape& shape, cudaStream_t stream);

/// Enqueues the addition of the blocks' shares of dweight, if it is wanted. Rounds once.
cudaError_t launch_add_shares(
    const BackwardProblem& problem, const Shape& shape, cudaStream_t stream);

}  // namespace rmsnorm::backward
