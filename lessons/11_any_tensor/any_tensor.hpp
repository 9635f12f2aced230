#pragma once
/// \file
/// What lesson 11's kernel is told: tensors as views of memory that somebody else laid out.

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "common/lesson.hpp"

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
  float weight_bias;   ///< added to the weight in fp32: 1 for Gemma's norms
};

/// Are all vectors of 16 bytes of all rows at 16-byte addresses, and full? `bytes` has an element.
inline bool is_aligned(const Operation& op, int bytes) {
  std::uintptr_t all = static_cast<std::uintptr_t>(op.hidden) * bytes;
  for (const Tensor& tensor : op.tensors) {
    all |= reinterpret_cast<std::uintptr_t>(tensor.weight);
    for (const Rows& rows : {tensor.x, tensor.y}) {
      all |= reinterpret_cast<std::uintptr_t>(rows.data) | rows.outer_stride | rows.inner_stride;
    }
  }
  return all % 16 == 0;
}

constexpr int kShortRows = 256;  ///< threads of a block in which a row has a warp or less

/// How threads share a row, and rows a block.
struct Shape {
  int threads;  ///< of a row
  int vectors;  ///< of a thread, at a time
  int rows;     ///< of a block
};

/// For rows of so many vectors.
inline Shape shape_for(int vectors) {
  for (const int own : {1, 2, 4}) {
    const int lanes = std::bit_ceil((vectors - 1u) / own + 1);
    if (lanes <= 32) return {lanes, own, kShortRows / lanes};
  }
  const int own = vectors <= 2048 ? 2 : vectors <= 4096 ? 4 : 8;
  const int warps = (vectors - 1) / own / 32 + 1;
  return {std::min(warps * 32, 1024), own, 1};
}

/// Enqueues the operation on the stream of the current device: one launch, or none if there are no
/// rows. Returns what the CUDA calls returned; cudaErrorInvalidConfiguration also for more rows
/// than a grid has blocks for.
cudaError_t launch(const Operation& operation, cudaStream_t stream);

}  // namespace rmsnorm::any_tensor
