#pragma once
/// \file
/// How threads share the rows of a backward pass. Nothing here asks for the GPU, but for whether it
/// has clusters: sums have to be the same on all that do, and on all that do not.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "library/kernels/backward.hpp"
#include "library/kernels/mixed.hpp"

namespace rmsnorm::kernels {

constexpr int kMaxBlock = 512;   ///< threads of a block: each can have 128 registers
constexpr int kMaxWide = 1024;   ///< of one whose threads have a vector each, and 64 registers
constexpr int kMaxVectors = 4;   ///< of a row, that a thread can keep
constexpr int kPartVectors = 2;  ///< that it keeps of a row that is too long
constexpr int kCluster = 8;  ///< blocks that share such a row: every GPU with clusters has these

/// How rows are shared out.
struct BackwardShape {
  int size;         ///< elements of a vector: 16 bytes, or 1 element where tensors are not aligned
  int vectors;      ///< of a row, that a thread keeps
  int threads;      ///< of a row, or of one of its parts
  int places;       ///< rows that a block has at a time
  int parts;        ///< of a row, each with blocks of its own; 1 if a block can keep the row
  bool is_cluster;  ///< the blocks of all parts are a cluster, and keep the row together
  int turns;        ///< rows that a place has at most, one after the other
  int blocks;       ///< of each part and head
};

/// From a row of a thread to its next one in a tensor, in bytes.
struct Step {
  std::int64_t within;  ///< where that is `inner_step` rows further in the inner dimension
  std::int64_t across;  ///< where the inner dimension ends before
};

/// A launch.
struct BackwardPlan {
  BackwardShape shape;
  float inverse;   ///< 1 / hidden
  int inner_step;  ///< from a row of a thread to its next one, in the inner dimension
  Step x, dy, dx;  ///< likewise, in each tensor
  float* sums;     ///< (blocks, heads, hidden)  partial sums of dweight; null: it is unwanted
  float* means;    ///< (rows, heads)            of g * n, for rows in parts
  Further x_further, dy_further, dx_further;  ///< those of the operation, for Variant::any alone
  std::int64_t weight_head;                   ///< likewise
  int period;                                 ///< likewise
  bool dy_is_expanded;                        ///< likewise
};

/// a / b, rounded up.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The fewest threads that can have all vectors, so many each: whole warps or, of a warp, a power
/// of two, whose lanes shuffles can add up.
inline int threads_of(int vectors, int of_thread, int most) {
  const auto threads = static_cast<unsigned>(divide_up(vectors, of_thread));
  if (threads <= 32) return static_cast<int>(std::max(8u, std::bit_ceil(threads)));
  return std::min(most, static_cast<int>(divide_up(threads, 32) * 32));
}

/// As many blocks as an H200 has at a time, or a few less. Each of its 132 SMs has room for two of
/// 512 threads that have 64 registers each, or for one.
inline int blocks_at_a_time(const BackwardShape& shape) {
  if (!shape.is_cluster) return shape.vectors == 1 && shape.threads <= kMaxBlock ? 256 : 132;
  // A cluster lies within a part of the GPU whose SMs need not be a multiple of 8, and not all H200
  // have the same parts: 15 clusters with one block on each SM are what was found. One more than
  // there is room for would have to wait for the end of all others.
  constexpr int kClusters = 14;
  return kClusters * kCluster * (kMaxBlock / shape.threads);
}

/// The shape for rows of vectors of `size` elements; each head has so many.
/// \param has_clusters  of the GPU
inline BackwardShape shape_for(int rows, int hidden, int heads, int size, bool has_clusters) {
  BackwardShape shape{};
  shape.size = size;
  const int vectors = hidden / size;

  // One vector for each thread; more where a warp or a block can then keep the row.
  const bool fits_warp = vectors > 32 && vectors <= 64;
  const int needed = static_cast<int>(divide_up(vectors, kMaxBlock));
  shape.vectors = size == 1               ? kMaxVectors
                  : fits_warp             ? 2
                  : vectors <= kMaxWide   ? 1
                  : needed <= kMaxVectors ? needed
                                          : kPartVectors;
  shape.threads = threads_of(vectors, shape.vectors, shape.vectors == 1 ? kMaxWide : kMaxBlock);
  shape.places = std::max(1, kMaxBlock / shape.threads);
  shape.parts = static_cast<int>(divide_up(vectors, shape.threads * shape.vectors));
  shape.is_cluster = has_clusters && size > 1 && shape.parts > 1 && shape.parts <= kCluster;
  if (shape.is_cluster) {
    shape.parts = kCluster;
    shape.threads = threads_of(vectors, kCluster * kPartVectors, kMaxBlock);
  }

  const int of_all = std::max(1, blocks_at_a_time(shape) / shape.parts);
  const int blocks = std::max(1, of_all / heads);
  constexpr std::int64_t kFewestTurns = 4;  // else partial sums cost more than rows
  const std::int64_t turns = divide_up(divide_up(rows, blocks), shape.places);
  shape.turns = static_cast<int>(std::max(kFewestTurns, turns));
  shape.blocks = static_cast<int>(divide_up(rows, std::int64_t{shape.turns} * shape.places));
  return shape;
}

/// Elements of a vector of 16 bytes, or 1 if not all rows are such vectors at such addresses.
inline int vector_size(const NestedBackward& op) {
  const int bytes = bytes_of(op.dtype);
  std::uintptr_t bits = static_cast<std::uintptr_t>(op.hidden) * bytes;
  bits |= reinterpret_cast<std::uintptr_t>(op.weight) | op.weight_head;
  bits |= address_bits({op.x, op.dx});
  bits |= op.x_further.leap | op.x_further.head | op.dx_further.leap | op.dx_further.head;
  if (!op.dy_is_expanded) bits |= address_bits({op.dy}) | op.dy_further.leap | op.dy_further.head;
  return bits % 16 == 0 ? 16 / bytes : 1;
}

/// The shape of an operation.
/// \param has_clusters  of the GPU
inline BackwardShape shape_of(const NestedBackward& op, bool has_clusters) {
  return shape_for(op.rows, op.hidden, op.heads, vector_size(op), has_clusters);
}

/// The variant of the kernels for rows that need not lie at one distance. `any` also knows weights
/// of any type.
inline Variant variant_of(const NestedBackward& op) {
  const bool has_odd_weight = op.weight != nullptr && is_odd(op.weight_dtype, op.dtype);
  const bool is_nested = op.period > 0 || op.heads > 1 || op.dy_is_expanded;
  return has_odd_weight || is_nested ? Variant::any : Variant::rows;
}

/// From a row to the one `rows` further.
inline Step step_of(const Rows& tensor, int rows, int inner) {
  const std::int64_t within =
      rows / inner * tensor.outer_stride + rows % inner * tensor.inner_stride;
  return {within, within + tensor.outer_stride - inner * tensor.inner_stride};
}

/// The launch of an operation. The workspace has the partial sums, and the means behind them.
inline BackwardPlan plan_for(const NestedBackward& op, const BackwardShape& shape) {
  BackwardPlan plan{};
  plan.shape = shape;
  plan.inverse = 1.0f / static_cast<float>(op.hidden);
  const int rows = shape.blocks * shape.places;
  plan.inner_step = rows % op.inner;
  plan.x = step_of(op.x, rows, op.inner);
  plan.dy = step_of(op.dy, rows, op.inner);
  plan.dx = step_of(op.dx, rows, op.inner);
  auto* const workspace = static_cast<float*>(op.workspace);
  plan.sums = op.dweight == nullptr ? nullptr : workspace;
  plan.means = workspace + plan.shape.blocks * std::int64_t{op.heads} * op.hidden;
  plan.x_further = op.x_further;
  plan.dy_further = op.dy_further;
  plan.dx_further = op.dx_further;
  plan.weight_head = op.weight_head;
  plan.period = op.period;
  plan.dy_is_expanded = op.dy_is_expanded;
  return plan;
}

/// As workspace_bytes(), for vectors of `size` elements. A GPU with clusters needs no more.
inline std::size_t workspace_bytes_with(int rows, int hidden, int heads, int size) {
  const BackwardShape shape = shape_for(rows, hidden, heads, size, false);
  const std::size_t means = shape.parts > 1 ? rows : 0;
  return sizeof(float) * heads * (static_cast<std::size_t>(shape.blocks) * hidden + means);
}

}  // namespace rmsnorm::kernels
