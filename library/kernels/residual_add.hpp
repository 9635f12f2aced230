#pragma once
/// \file
/// RMSNorm of a sum, which takes a residual's place.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/contract/dtype.hpp"
#include "library/kernels/rows.hpp"

namespace rmsnorm::kernels {

/// What it does. In every row: sum = x + residual; the residual becomes sum, and
/// y = sum / sqrt(eps + mean of sum^2) * (weight + weight_bias). Both are rounded once. y may be x;
/// otherwise no two tensors share a byte, nor do two rows of y or of the residual.
struct ResidualAdd {
  Rows x;                ///< (outer, inner, hidden)  input
  Rows residual;         ///< (outer, inner, hidden)  input and output
  Rows y;                ///< (outer, inner, hidden)  output
  const void* weight;    ///< (hidden)                null: all ones
  std::int64_t rows;     ///< outer * inner; 0 or more
  std::int64_t inner;    ///< 1 or more; `rows` or more if outer is 1
  int hidden;            ///< 1 to 2^30
  Dtype dtype;           ///< of x and y
  Dtype weight_dtype;    ///< of the weight
  float eps;             ///< 0 or more
  float weight_bias;     ///< added to the weight: 1 for models that store weight - 1; 0 without one
  Dtype residual_dtype;  ///< of the residual
  /// Bytes from the weight of an outer index to the next one's, and of an inner one.
  std::int64_t weight_outer_stride = 0, weight_inner_stride = 0;
  std::int64_t step_bits = 0;  ///< set in any distance to rows of launches that have to be alike
  int prefetch_distance = 0;   ///< rows, set by launch(): see prefetch_distance() in launch.hpp
  int pieces = 1;              ///< set by launch(): loads that a thread needs for a vector
  int threads = 0;             ///< of a row, in each block: set by launch(), as are the next two
  int cluster = 1;             ///< blocks that share a row
  int part = 0;                ///< of a row: vectors of each block but the last
  unsigned prefetching_blocks = 0;  ///< blocks, likewise: see prefetching_blocks() there
  bool is_large = false;            ///< set by launch(): so much is read that the L2 is to keep it
  float inverse = 0;                ///< set by launch(): 1 / hidden
};

/// Enqueues the operation on the stream of the current device: one launch, or none if there are no
/// rows. Returns what the CUDA calls returned; cudaErrorInvalidConfiguration also for more rows
/// than a grid has blocks for, and where outer and inner are both more than 65535. The grid may be
/// set up while the kernel before it in the stream still runs; it reads and writes nothing before
/// that kernel's end.
cudaError_t launch(const ResidualAdd& op, cudaStream_t stream);

}  // namespace rmsnorm::kernels
