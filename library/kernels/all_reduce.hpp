#pragma once
/// \file
/// The sum over ranks, a residual add and RMSNorm, in one kernel of each rank.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "common/contract/dtype.hpp"

namespace rmsnorm::kernels {

constexpr int kMostRanks = 8;
constexpr int kMostRankBlocks = 128;    ///< of a rank: block b meets those of its number
constexpr int kMostRankHidden = 16384;  ///< 1024 threads have 16 columns each

/// What a rank's buffer begins with; zeros before the first call. Its inbox is behind: two halves,
/// which calls fill by turns.
struct RankHeader {
  unsigned long long call;  ///< how many have ended
  unsigned ended;           ///< blocks of the present one that have
  unsigned failed;          ///< 1 since a peer was waited for in vain
  /// What a peer's block stores when it has come to a meeting: its number, and its call's shape.
  alignas(256) unsigned long long flags[kMostRankBlocks][kMostRanks];
};
constexpr std::size_t kRankHeaderBytes = 16384;
static_assert(sizeof(RankHeader) <= kRankHeaderBytes);

/// Why a call ended without its peers. In memory that the host can read, too.
struct RankFailure {
  enum Reason : unsigned { kNone, kMissing, kOtherShape, kOtherCall };
  unsigned reason;          ///< written last
  int peer;                 ///< the rank that did not come
  unsigned long long call;  ///< from 0 on
};

/// On each rank, of all rows, in this order of ranks; arithmetic is fp32's:
///
///     sum = 0 + x of rank 0 + x of rank 1 + ...   rounded to the type of x
///     value = sum + residual
///     residual = value, rounded
///     y = value / sqrt(eps + mean of value^2) * (weight + weight_bias)
///
/// One-shot: each rank adds up all rows. Two-shot: one of them adds up each row. The bits are the
/// same. A rank that has waited for longer than the limit stores NaN, and so in later calls.
/// y may be x; otherwise no two tensors share a byte.
struct AllReduced {
  /// Tensors (rows, hidden) of a rank.
  struct Own {
    const char* x;   ///< input
    char* residual;  ///< input and output
    char* y;         ///< output
  };
  void* buffers[kMostRanks];     ///< of all ranks, as this one reaches them
  Own own[kMostRanks];           ///< of the ranks that are launched
  std::int64_t x_stride;         ///< bytes from a row to the next
  std::int64_t residual_stride;  ///< likewise
  std::int64_t y_stride;         ///< likewise
  const void* weight;            ///< (hidden)  null: all ones
  RankFailure* failures;         ///< of each rank that is launched
  std::uint64_t limit;           ///< nanoseconds
  std::int64_t half_bytes;       ///< of an inbox; a multiple of 16
  int rank;                      ///< whose launch it is: the first that is launched
  int ranks;                     ///< 1 to kMostRanks
  int rows;                      ///< 0 or more; the same on all ranks, as all that follows
  int hidden;                    ///< 0 to kMostRankHidden
  Dtype dtype;                   ///< of x, the residual and y
  bool weight_is_fp32;           ///< else it is of x's type
  bool is_two_shot;              ///< see above
  float eps;                     ///< 0 or more
  float weight_bias;             ///< added to the weight; 0 without one
  // As they are, but for tests, where one launch plays several ranks.
  int launched_ranks = 1;
  int most_blocks = kMostRankBlocks;  ///< of a rank

  // Set by launch().
  int vectors = 0;     ///< of 16 bytes, of a row in an inbox
  unsigned shape = 0;  ///< 16 bits that differ, mostly, where ranks' calls do
};

/// Bytes of the rows in an inbox: each row in whole vectors of 16.
inline std::int64_t inbox_bytes(std::int64_t rows, std::int64_t hidden, Dtype dtype) {
  return rows * ((hidden * bytes_of(dtype) + 15) / 16 * 16);
}

/// Is two-shot the faster of the two for so many bytes of a rank? By what vLLM has published for
/// H100s and a kernel that divides rows, too; not measured here.
constexpr bool is_for_two_shot(int ranks, std::int64_t bytes) {
  return ranks > 2 && bytes >= (ranks <= 4 ? 512 << 10 : 256 << 10);
}

/// Enqueues the operation on the stream of the current device: all blocks begin together, or none.
/// Returns what the CUDA calls returned.
cudaError_t launch(const AllReduced& op, cudaStream_t stream);

}  // namespace rmsnorm::kernels
