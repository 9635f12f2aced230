#pragma once
/// \file
/// RMSNorm of the heads of queries and keys, their rotation, and a cache.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/contract/dtype.hpp"
#include "library/kernels/rows.hpp"

namespace rmsnorm::kernels {

/// Where the slots of a cache lie. A slot has the heads of a token.
struct Cache {
  void* data;                ///< page 0, place 0, head 0; null: there is none
  std::int64_t page_stride;  ///< bytes from a page to the next
  std::int64_t slot_stride;  ///< bytes from a slot to the next of its page
  std::int64_t head_stride;  ///< bytes from a head of a slot to the next
};

/// The heads of q, of k or of v.
struct RotatedPart {
  Rows x;                           ///< (tokens, heads, hidden)  input
  Rows y;                           ///< likewise, output; data of null: unwanted
  const void* weight;               ///< (hidden) or (heads, hidden)  null: all ones
  std::int64_t weight_head_stride;  ///< bytes from a head's weight to the next one's; 0: one of all
  bool weight_is_fp32;              ///< else it is of x's type
  Cache cache;                      ///< output, too
  int heads;                        ///< of each token; 0 if there is no such part
  int first_group = 0;              ///< set by launch(): of a token's groups of heads
};

/// A norm and a rotation of each head of q and of k. Columns that are turned together, a and b, are
/// c and c + rotary_dim / 2 or, if is_interleaved, 2 * c and 2 * c + 1, for c < rotary_dim / 2:
///
///     n = x / sqrt(eps + mean of x^2) * (weight + weight_bias)
///     y[a] = n[a] * cos[position][c] - n[b] * sin[position][c]
///     y[b] = n[b] * cos[position][c] + n[a] * sin[position][c]
///
/// Other columns of y are n. Where the token's slot is 0 or more, the heads of k and of v have it
/// in their caches, k as its y is, v as it is. It is rounded once; if rounds_twice, n is, too, to
/// x's type. A y may be its x; otherwise no two tensors share a byte, nor do two rows that are
/// written.
struct Rotated {
  enum { kQ, kK, kV, kParts };
  RotatedPart parts[kParts];   ///< v has neither y nor weight, q no cache
  const void* cos;             ///< (positions, rotary_dim / 2)
  const void* sin;             ///< likewise
  std::int64_t cos_stride;     ///< bytes from a row to the next
  std::int64_t sin_stride;     ///< likewise
  const void* positions;       ///< (tokens)  rows of the tables; null: each token's number
  const void* slots;           ///< (tokens)  null without caches
  std::int64_t tokens;         ///< 0 or more
  std::int64_t cache_slots;    ///< of each cache, in whole pages
  std::int64_t page_size;      ///< slots of a page; 1 or more
  int hidden;                  ///< 1 to kMostRotatedColumns
  int rotary_dim;              ///< even, 2 to hidden
  Dtype dtype;                 ///< of all tensors but weights, tables and numbers
  bool tables_are_fp32;        ///< else they are of x's type
  bool positions_are_64_bits;  ///< else they have 32
  bool slots_are_64_bits;      ///< likewise
  bool is_interleaved;         ///< which columns are turned together
  bool rounds_twice;           ///< to the type of x, before the rotation
  float eps;                   ///< 0 or more
  float weight_bias;           ///< added to the weights; 0 without one

  // Set by launch().
  float inverse = 0;                ///< 1 / hidden
  int half = 0;                     ///< distance of columns that turn; 0: they are neighbours
  int turned_pairs = 0;             ///< pairs of vectors, `half` columns apart, that turn
  int rest = 0;                     ///< the first column of the other pairs
  int middle = 0;                   ///< the first column of the second vectors of those
  int group_heads = 0;              ///< the most heads of a group
  int token_groups = 0;             ///< groups of heads of a token
  int turn_tokens = 0;              ///< tokens that a block has at a time
  std::int64_t steps = 0;           ///< of all blocks beside each other
  int steps_of_block = 0;           ///< at least
  int longer_blocks = 0;            ///< the first, which have one step more
  unsigned prefetching_blocks = 0;  ///< see prefetching_blocks() in launch.hpp
};

constexpr int kMostRotatedColumns = 768;  ///< of a head: 32 lanes hold it in pairs of vectors

/// Enqueues the operation on the stream of the current device: one launch, or none without tokens.
/// A head's bits depend on its values, its weight, cosines and sines, and on hidden, rotary_dim,
/// the types and the options alone. Returns what the CUDA calls returned.
cudaError_t launch(const Rotated& op, cudaStream_t stream);

}  // namespace rmsnorm::kernels
