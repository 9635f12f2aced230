#pragma once
/// \file
/// RMSNorm and a gate, forwards and backwards.

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/contract/dtype.hpp"
#include "library/kernels/backward.hpp"
#include "library/kernels/rows.hpp"

namespace rmsnorm::kernels {

/// A norm with a gate, silu(z) = z / (1 + exp(-z)). In every row
///
///     y = x / sqrt(eps + mean of x^2) * (weight + weight_bias) * silu(z)
///
/// or, if gates_first, the norm of x * silu(z) times the weight. It is rounded once; if
/// rounds_twice, what is multiplied by the weight also is, to the type of x, and so is that
/// product, if the weight has this type. y may be x; otherwise no two tensors share a
/// byte, nor do two rows of y.
struct Gated {
  Rows x, z;           ///< (outer, inner, hidden)  inputs
  Rows y;              ///< (outer, inner, hidden)  output
  const void* weight;  ///< (hidden)                null: all ones
  std::int64_t rows;   ///< outer * inner; 0 or more
  std::int64_t inner;  ///< 1 or more; `rows` or more if outer is 1
  int hidden;          ///< 1 to 2^30
  Dtype dtype;         ///< of x, z and y
  Dtype weight_dtype;  ///< of the weight: that of x or fp32
  bool gates_first;    ///< the gate is a factor of what is normed
  bool rounds_twice;   ///< to the type of x, on the way
  float eps;           ///< 0 or more
  float weight_bias;   ///< added to the weight; 0 without one
  /// Bytes from the weight of an outer index to the next one's, and of an inner one.
  std::int64_t weight_outer_stride = 0, weight_inner_stride = 0;
  std::int64_t step_bits = 0;  ///< set in any distance to rows of launches that have to be alike
  float inverse = 0;           ///< set by launch(): 1 / hidden
  unsigned prefetching_blocks = 0;  ///< set by launch(): see prefetching_blocks() in launch.hpp
  int prefetch_distance = 0;        ///< set by launch(): rows, likewise
};

/// Enqueues the operation on the stream of the current device: one launch, or none if there are no
/// rows. A row's bits depend on its values, on hidden and on the types alone. Returns what the CUDA
/// calls returned, as the residual add does.
cudaError_t launch(const Gated& op, cudaStream_t stream);

/// Its backward pass, of the operation that rounds once. With s = silu(z), u = x (x * s if
/// gates_first), r = 1 / sqrt(eps + mean of u^2), n = u * r, w = weight + weight_bias and
/// g = dy * w (times s unless gates_first):
///
///     du = r * (g - n * mean of g * n)
///     dx = du, dz = dy * w * n * silu'(z), dweight = sum over the rows of dy * n * s
///     dx = du * s, dz = du * x * silu'(z), dweight = sum over the rows of dy * n   (gates_first)
///
/// What is written has no byte in common with anything else, nor have two rows of dx or of dz.
struct GatedBackward {
  static constexpr int kMostColumns = 8192;  ///< that a block holds
  enum { kX, kZ, kDy, kDx, kDz, kTensors };
  Rows tensors[kTensors];     ///< (outer, inner, hidden) for each head  dx and dz are outputs
  Further further[kTensors];  ///< of each of them
  const void* weight;         ///< (heads, hidden)  null: all ones
  std::int64_t weight_head;   ///< bytes from a head's weight to the next one's
  void* dweight;              ///< (heads, hidden)  output, of weight_dtype; null: unwanted
  float* workspace;           ///< of gated_workspace_bytes(), at a multiple of 16
  int rows;                   ///< of each head: outer * inner; 0 to 2^30
  int inner;                  ///< 1 or more; `rows` or more if outer is 1
  int period;                 ///< outer indices that lie at one distance; 0: all of them do
  int heads;                  ///< with a row of weight, and of dweight, each
  int hidden;                 ///< 1 to kMostColumns
  Dtype dtype;                ///< of all tensors but the weight and dweight
  Dtype weight_dtype;         ///< of these: that of x or fp32
  bool gates_first;           ///< as in the forward pass
  float eps;                  ///< likewise
  float weight_bias;          ///< likewise
  float inverse = 0;          ///< set by launch(): 1 / hidden
};

/// Bytes of its workspace, wherever rows lie.
std::size_t gated_workspace_bytes(int rows, int hidden, int heads);

/// As launch() above. The same operation gives the same bits in every run.
cudaError_t launch(const GatedBackward& op, cudaStream_t stream);

/// Columns of a row that a thread keeps, in vectors of 16 bytes.
constexpr int kGatedColumns = 16;
constexpr int kMaxGatedThreads = 512;  ///< of a row

/// The threads of a row: lanes of a warp, or whole warps, a block's. Of longer rows, a thread of
/// the forward pass reads what it does not keep twice.
constexpr int gated_threads(int hidden) {
  const int threads = (hidden - 1) / kGatedColumns + 1;
  if (threads <= 32) return std::max(4, static_cast<int>(std::bit_ceil<unsigned>(threads)));
  return std::min(kMaxGatedThreads, (threads + 31) / 32 * 32);
}

}  // namespace rmsnorm::kernels
