#pragma once
/// \file
/// RMSNorm for training: a forward pass that also stores rstd, and the backward pass.

#include <cuda_runtime.h>

#include "common/contract/lesson.hpp"
#include "lessons/13_backward/cost.hpp"

namespace rmsnorm::backward {

/// Enqueues y = RMSNorm(x), for a problem without a residual, and stores each row's
/// 1 / sqrt(eps + mean of squares). Returns what the CUDA calls returned.
/// \param rstd (rows), on the device
cudaError_t forward(const TypedProblem& problem, float* rstd, cudaStream_t stream);

/// Enqueues the backward pass, with a workspace of workspace_bytes(): dx, and dweight if it is not
/// null. The same problem gives the same bits in every run, and every GPU adds in the same order,
/// as long as its tensors are all at multiples of 16 bytes, or are not. Returns what the CUDA calls
/// returned.
cudaError_t backward(const BackwardProblem& problem, cudaStream_t stream);

}  // namespace rmsnorm::backward
