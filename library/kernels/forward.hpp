#pragma once
/// \file
/// RMSNorm of one tensor or two in a launch; for training, with each row's rstd.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/contract/dtype.hpp"
#include "library/kernels/rows.hpp"

namespace rmsnorm::kernels {

/// A tensor to norm, and where the results go. y is x, or has no byte in common with x; it has
/// none in common with the weight, nor have two of its rows.
struct Tensor {
  Rows x;              ///< (outer, inner, hidden)  input
  Rows y;              ///< (outer, inner, hidden)  output
  const void* weight;  ///< (hidden)                null: all ones
  float* rstd;         ///< (outer * inner)         output; null: unwanted
  std::int64_t rows;   ///< outer * inner; 0 or more
  std::int64_t inner;  ///< 1 or more; `rows` or more if outer is 1
};

/// What one launch does. In every row: rstd = 1 / sqrt(eps + mean of x^2), and
/// y = x * rstd * (weight + weight_bias). Of two tensors, both have a weight, or none has.
struct Forward {
  Tensor tensors[2];   ///< neither writes what the other reads or writes
  int hidden;          ///< of all tensors; 1 to 2^30
  Dtype dtype;         ///< of x and y
  Dtype weight_dtype;  ///< of all weights
  float eps;           ///< 0 or more
  float weight_bias;   ///< added to the weight in fp32: 1 for models that store weight - 1
};

/// A launch in which each inner index, a head, may have a weight of its own.
struct HeadsForward : Forward {
  std::int64_t weight_head[2];  ///< of each tensor, bytes from a head's weight to the next; or 0
  std::int64_t step_bits;  ///< set in any distance to rows of launches that have to be alike; or 0

  /// One in which none has.
  HeadsForward(const Forward& op) : Forward(op), weight_head{}, step_bits(0) {}  // NOLINT: the same
};

/// Enqueues the operation on the stream of the current device: one launch, or none if there are no
/// rows. Returns what the CUDA calls returned; cudaErrorInvalidConfiguration also for more rows
/// than a grid has blocks for. The grid may be set up while the kernel before it in the stream
/// still runs; it reads and writes nothing before that kernel's end.
cudaError_t launch(const HeadsForward& op, cudaStream_t stream);

}  // namespace rmsnorm::kernels
