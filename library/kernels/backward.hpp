#pragma once
/// \file
/// The backward pass of RMSNorm.

#include <cuda_runtime.h>

#include <cstddef>

#include "common/contract/dtype.hpp"
#include "library/kernels/rows.hpp"

namespace rmsnorm::kernels {

/// One backward pass. With n = x * rstd and g = dy * (weight + weight_bias), in every row
/// dx = rstd * (g - n * mean of g * n), and dweight = sum over the rows of dy * n. What is written
/// has no byte in common with anything else, nor have two rows of dx.
struct Backward {
  Rows x;              ///< (outer, inner, hidden)  input
  Rows dy;             ///< (outer, inner, hidden)  input
  Rows dx;             ///< (outer, inner, hidden)  output
  const float* rstd;   ///< (outer * inner)         input
  const void* weight;  ///< (hidden)                null: all ones
  void* dweight;       ///< (hidden)                output, of weight_dtype; null: unwanted
  void* workspace;     ///< of workspace_bytes(), at a multiple of 16
  int rows;            ///< outer * inner; 0 to 2^30
  int inner;           ///< 1 or more; `rows` or more if outer is 1
  int hidden;          ///< 1 to 2^30
  Dtype dtype;         ///< of x, dy and dx
  Dtype weight_dtype;  ///< of the weight and dweight
  float weight_bias;   ///< added to the weight in fp32: 1 for models that store weight - 1
};

/// How much further the rows of a tensor lie than its Rows say.
struct Further {
  std::int64_t leap;  ///< bytes at the end of each `period` of the outer dimension
  std::int64_t head;  ///< bytes from a head to the next
};

/// A backward pass with what its kernels seldom need.
struct NestedBackward : Backward {
  Further x_further{}, dy_further{}, dx_further{};  ///< of each tensor
  std::int64_t weight_head = 0;  ///< bytes from a head's weight to the next one's
  int period = 0;  ///< outer indices that lie at one distance, over and over; 0: all of them do
  bool dy_is_expanded = false;  ///< each row of dy is one element, which stands for all columns
  int heads = 1;  ///< with a row of weight, and of dweight, each; then `rows` are those of one head

  /// One without any of that.
  NestedBackward(const Backward& op) : Backward(op) {}  // NOLINT: it is the same operation
};

/// Bytes of the workspace for tensors of this shape and type, wherever their rows lie.
///
/// \param rows   of each head
/// \param heads  that have a weight of their own, or 1
std::size_t workspace_bytes(int rows, int hidden, int heads, Dtype dtype);

/// Enqueues the operation on the stream of the current device. The same operation gives the same
/// bits in every run, and every GPU adds in the same order, as long as its rows and its weight all
/// begin at multiples of 16 bytes, or do not. (Long rows have an order of their own on GPUs with
/// clusters.) Returns what the CUDA calls returned.
cudaError_t launch(const NestedBackward& op, cudaStream_t stream);

}  // namespace rmsnorm::kernels
