#pragma once
/// \file
/// What lesson 12's kernel is told.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/contract/lesson.hpp"

namespace rmsnorm::residual_add {

/// The rows of a tensor (rows, hidden). Columns lie side by side, at an address that is a multiple
/// of the element's size; rows lie at one distance.
struct Rows {
  void* data;           ///< row 0, column 0
  std::int64_t stride;  ///< elements from one row to the next; of x also 0 or negative
};

/// What one launch does. In every row: sum = x + residual; the residual becomes sum, and
/// y = sum / sqrt(eps + mean of sum^2) * (weight + weight_bias). Both are rounded once. y may be x;
/// otherwise no two tensors share a byte, nor do two rows of y or of the residual.
struct Operation {
  Rows x;              ///< (rows, hidden)  input
  Rows residual;       ///< (rows, hidden)  input and output
  Rows y;              ///< (rows, hidden)  output
  const void* weight;  ///< (hidden)        null: all ones
  std::int64_t rows;   ///< 0 or more
  int hidden;          ///< 1 to kMostColumns
  Dtype dtype;         ///< of x, the residual and y
  Dtype weight_dtype;  ///< `dtype` or fp32
  float eps;           ///< 0 or more
  float weight_bias;   ///< added to the weight: 1 for models that store weight - 1; 0 without one
};

constexpr int kMostColumns = 49152;  ///< for which a block has registers

/// Enqueues the operation on the stream of the current device: one launch, or none if there are no
/// rows. Returns what the CUDA calls returned; cudaErrorInvalidConfiguration also for more rows
/// than a grid has blocks for. The kernel may begin while the one before it in the stream ends; it
/// reads and writes nothing before.
cudaError_t launch(const Operation& operation, cudaStream_t stream);

}  // namespace rmsnorm::residual_add
