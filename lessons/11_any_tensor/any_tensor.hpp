#pragma once
/// \file
/// What lesson 11's kernel is told: tensors as views of memory that somebody else laid out.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/contract/lesson.hpp"

namespace rmsnorm::any_tensor {

/// The rows of a tensor (outer, inner, hidden). Columns lie side by side; rows lie anywhere, at
/// addresses that are multiples of the element's size.
struct Rows {
  void* data;                 ///< row (0, 0), column 0
  std::int64_t outer_stride;  ///< bytes from row (i, j) to row (i + 1, j); may be 0 or negative
  std::int64_t inner_stride;  ///< bytes from row (i, j) to row (i, j + 1); may be 0 or negative
};

/// A tensor to norm, and where the result goes. y is x, or has no byte in common with x; it has
/// none in common with the weight, nor have two of its rows.
struct Tensor {
  Rows x;              ///< (outer, inner, hidden)  input
  Rows y;              ///< (outer, inner, hidden)  output
  const void* weight;  ///< (hidden)                null: all ones
  std::int64_t rows;   ///< outer * inner; 0 or more
  std::int64_t inner;  ///< 1 or more; `rows` or more if outer is 1
};

/// What one launch does. In every row: y = x / sqrt(eps + mean of x^2) * (weight + weight_bias).
struct Operation {
  Tensor tensors[2];   ///< neither writes what the other reads or writes
  int hidden;          ///< of all tensors; 1 to 2^30
  Dtype dtype;         ///< of x and y
  Dtype weight_dtype;  ///< `dtype` or fp32
  float eps;           ///< 0 or more
  float weight_bias;   ///< added to the weight in fp32: 1 for models that store weight - 1
};

/// Enqueues the operation on the stream of the current device: one launch, or none if there are no
/// rows. Returns what the CUDA calls returned; cudaErrorInvalidConfiguration also for more rows
/// than a grid has blocks for. With `may_overlap`, from Hopper on, the grid may be set up while the
/// kernel before it in the stream still runs: it waits for that kernel's end before it reads.
cudaError_t launch(const Operation& operation, cudaStream_t stream, bool may_overlap = true);

/// A problem of the harness.
inline Operation operation_of(const TypedProblem& p) {
  const std::int64_t stride = std::int64_t{bytes_of(p.dtype)} * p.hidden;
  const Rows x{const_cast<void*>(p.x), 0, stride};
  const Tensor tensor{x, {p.y, 0, stride}, p.weight, p.rows, p.rows};
  return {{tensor, {}}, p.hidden, p.dtype, p.weight_dtype, p.eps, p.weight_bias};
}

}  // namespace rmsnorm::any_tensor
