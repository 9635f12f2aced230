#pragma once
/// \file
/// How a residual add is spread over the GPU.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "library/kernels/forward_plan.hpp"
#include "library/kernels/mixed.hpp"
#include "library/kernels/residual_add.hpp"

namespace rmsnorm::kernels {

/// How a row is shared.
struct ResidualAddPlan {
  int threads;               ///< of a row, in each block: 4 to 32 lanes of a warp, or whole warps
  int columns;               ///< that each of them keeps in registers, unless is_fallback; 0: none,
                             ///< or unaligned vectors
  int rows;                  ///< of a block
  int width;                 ///< columns of a vector
  int step;                  ///< columns that are loaded or stored at once: a vector's, or fewer
  bool is_mixed;             ///< it has a kernel that knows all types
  int cluster = 1;           ///< blocks that share a row; if more than 1, columns is 0
  int part = 0;              ///< of a row: vectors of each block but the last
  int vectors = 0;           ///< unaligned ones of a row that each thread has; 0 for other kernels
  bool is_fallback = false;  ///< the kernel for rows at any address has it
};

constexpr int kMaxSummingThreads = 1024;  ///< of a block
constexpr int kSummingVectors = 4;        ///< that each thread of a cluster has of x, of 16 bytes

/// Where rows are no whole vectors of 16 bytes:
constexpr int kMostUnalignedColumns = 96;     ///< that a thread has
constexpr int kMaxUnalignedSumThreads = 384;  ///< of a block whose threads have fewer

/// Does a cluster have a row, and not the kernel for rows at any address in its place?
inline bool is_shared(const ResidualAddPlan& plan) {
  return plan.cluster > 1 && !plan.is_fallback;
}

/// The shared memory of a block of a cluster: for x and the residual.
inline int staged_bytes(const ResidualAddPlan& plan) {
  return 2 * plan.part * 16;
}

/// The threads of a block of the kernel for rows at any address.
inline int long_threads(const ResidualAddPlan& plan) {
  return std::min(kMaxSummingThreads, plan.cluster * plan.threads);
}

/// Where there are clusters, rows of more whole vectors of 16 bytes than the first are shared by
/// one, if they have no more than the second.
constexpr int kMostVectorsOfBlock = 2048;
constexpr int kMostVectorsOfCluster = kMaxCluster * kMaxClusterThreads * kSummingVectors;

/// Columns of a vector: 16 bytes, or as many as a row is a multiple of. A thread adds up those of
/// its vectors: the order follows from hidden and the type.
inline int width_of(const ResidualAdd& op) {
  return std::gcd(op.hidden, 16 / bytes_of(op.dtype));
}

/// Columns that can be moved at once, if they are `width` at most: as many as every row and tensor
/// begins at a multiple of.
inline int step_of(const ResidualAdd& op, int width) {
  const std::uintptr_t bits =
      (address_bits({op.x, op.y}) | op.step_bits) / bytes_of(op.dtype) |
      (address_bits({op.residual}) | op.step_bits) / bytes_of(op.residual_dtype) |
      (reinterpret_cast<std::uintptr_t>(op.weight) | op.weight_outer_stride |
       op.weight_inner_stride) /
          bytes_of(op.weight_dtype);
  return static_cast<int>(std::gcd(bits, width));
}

/// Has the residual another type than x, or the weight one that is neither x's nor fp32?
inline bool is_mixed(const ResidualAdd& op) {
  return op.residual_dtype != op.dtype ||
         (op.weight != nullptr && is_odd(op.weight_dtype, op.dtype));
}

/// Has each outer or inner index a weight of its own?
inline bool has_heads(const ResidualAdd& op) {
  return op.weight_outer_stride != 0 || op.weight_inner_stride != 0;
}

/// The launch of a mixed operation.
inline ResidualAddPlan mixed_plan_for(const ResidualAdd& op) {
  const int threads = mixed_threads(op.hidden);
  const bool is_whole = step_of(op, std::gcd(op.hidden, kGroup)) == kGroup;
  const int step = is_whole ? kGroup : 1;
  return {threads, kKeptGroups * kGroup, threads == 32 ? 4 : 1, kGroup, step, true};
}

/// The shape for rows that are no whole vectors, of so many and a part of one, which a block holds.
/// \param most  vectors that a thread can have of the longest
inline ResidualAddPlan plan_unaligned(int vectors, int most) {
  ForwardShape shape = shape_unaligned(vectors);
  if (shape.threads > 32) {
    const int of_three = 3 * kMaxUnalignedSumThreads, of_four = 4 * kMaxUnalignedSumThreads;
    shape.vectors = vectors <= of_three ? 3 : vectors <= of_four ? 4 : most;
    shape.threads = std::max(kShortRows, threads_for(vectors, shape.vectors));
  }
  ResidualAddPlan plan{shape.threads, 0, std::max(1, kShortRows / shape.threads), 1, 1, false};
  plan.vectors = shape.vectors;
  return plan;
}

/// The first shape with room for a row, on a GPU that has clusters or not.
inline ResidualAddPlan shape_for(const ResidualAdd& op, bool has_clusters) {
  const int width = width_of(op), vectors = op.hidden / width;
  const bool are_whole = width * bytes_of(op.dtype) == 16;
  if (!are_whole) {
    const int size = 16 / bytes_of(op.dtype), most = kMostUnalignedColumns / size;
    if (op.hidden / size <= kMaxClusterThreads * most)
      return plan_unaligned(op.hidden / size, most);
    ResidualAddPlan plan{kMaxSummingThreads, 0, 1, width, width, false};
    plan.part = vectors;
    return plan;
  }
  ResidualAddPlan plan{32, 16, 4, width, width, false};
  plan.part = vectors;
  if (vectors <= 64) {
    plan.threads = lanes_for(vectors), plan.columns = 2 * width;
    plan.rows = kShortRows / plan.threads;
    return plan;
  }
  if (op.hidden <= plan.threads * plan.columns) return plan;
  const bool are_long = vectors > kMostVectorsOfBlock && vectors <= kMostVectorsOfCluster;
  if (has_clusters && are_long) {
    const ForwardShape shape = cluster_for(vectors, kSummingVectors);
    plan.rows = 1, plan.columns = 0;
    plan.threads = shape.threads, plan.cluster = shape.cluster;
    plan.part = part_of(vectors, shape.cluster);
    return plan;
  }
  plan.rows = 1;
  plan.threads = 128;
  while (plan.threads < kMaxSummingThreads && op.hidden > plan.threads * plan.columns)
    plan.threads *= 2;
  // An SM holds two blocks of 512 threads, and one of more. That is worth it up to this length.
  constexpr int kMaxOfTwo = 28 * 512;
  const bool has_two = plan.threads > 512 && op.hidden <= kMaxOfTwo && bytes_of(op.dtype) == 2;
  if (has_two) plan.threads = 512, plan.columns = 32;
  if (op.hidden <= plan.threads * plan.columns) return plan;
  plan.threads = 512;
  plan.columns = 96;
  if (op.hidden <= plan.threads * plan.columns) return plan;
  plan.threads = kMaxSummingThreads;
  plan.columns = 0;
  return plan;
}

/// The launch of an operation. Where whole vectors are not what can be moved, and for their weights
/// of heads, the kernel for long rows takes all, in the shape that the others would have.
inline ResidualAddPlan plan_for(const ResidualAdd& op, bool has_clusters) {
  if (is_mixed(op)) return mixed_plan_for(op);
  ResidualAddPlan plan = shape_for(op, has_clusters);
  if (plan.vectors > 0) return plan;
  plan.step = step_of(op, plan.width);
  plan.is_fallback = plan.step < plan.width || has_heads(op);
  return plan;
}

}  // namespace rmsnorm::kernels
