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
  Dtype weight_dtype;  ///< `dtype` or fp32
  float weight_bias;   ///< added to the weight in fp32: 1 for models that store weight - 1
};

/// Bytes of the workspace for tensors of this shape and type, wherever their rows lie.
std::size_t workspace_bytes(int rows, int hidden, Dtype dtype);

/// Enqueues the operation on the stream of the current device. The same operation gives the same
/// bits in every run, and every GPU adds in the same order, as long as its rows and its weight all
/// begin at multiples of 16 bytes, or do not. Returns what the CUDA calls returned.
cudaError_t launch(const Backward& op, cudaStream_t stream);

}  // namespace rmsnorm::kernels
