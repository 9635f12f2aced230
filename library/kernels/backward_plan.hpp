#pragma once
/// \file
/// How threads share the rows of a backward pass. Nothing here asks for the GPU: its sums have to
/// be the same on every one.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "library/kernels/backward.hpp"
#include "library/kernels/mixed.hpp"

namespace rmsnorm::kernels {

constexpr int kMaxBlock = 512;   ///< threads of a block: each can have 128 registers
constexpr int kMaxVectors = 4;   ///< of a row, that a thread can keep
constexpr int kPartVectors = 2;  ///< that it keeps of a row that is too long

/// How rows are shared out.
struct BackwardShape {
  int size;        ///< elements of a vector: 16 bytes, or 1 element where tensors are not aligned
  int vectors;     ///< of a row, that a thread keeps
  int threads;     ///< of a row, or of one of its parts
  int places;      ///< rows that a block has at a time
  int parts;       ///< of a row, each with blocks of its own; 1 if a block can keep the row
  int block_rows;  ///< rows of a block
  int blocks;      ///< of each part and head
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

/// The shape for rows of vectors of `size` elements; each head has so many.
inline BackwardShape shape_for(int rows, int hidden, int heads, int size) {
  BackwardShape shape{};
  shape.size = size;
  const int vectors = hidden / size;

  // One vector for each thread; more where a warp or a block can then keep the row.
  const bool fits_warp = vectors > 32 && vectors <= 64;
  const int needed = static_cast<int>(divide_up(vectors, kMaxBlock));
  shape.vectors = size == 1               ? kMaxVectors
                  : fits_warp             ? 2
                  : needed <= kMaxVectors ? needed
                                          : kPartVectors;
  const auto threads = static_cast<unsigned>(divide_up(vectors, shape.vectors));
  shape.threads = static_cast<int>(std::clamp(std::bit_ceil(threads), 8u, 512u));
  shape.places = kMaxBlock / shape.threads;
  shape.parts = static_cast<int>(divide_up(vectors, shape.threads * shape.vectors));

  // As many blocks as an H200 has at a time: each of its 132 SMs has room for two, or for one.
  const int of_gpu = shape.vectors == 1 ? 256 : 132;
  constexpr std::int64_t kFewestTurns = 4;  // else partial sums cost more than rows
  const int of_all = std::max(1, of_gpu / shape.parts);
  const int blocks = std::max(1, of_all / heads);
  const std::int64_t turns = divide_up(divide_up(rows, blocks), shape.places);
  shape.block_rows = static_cast<int>(std::max(kFewestTurns, turns) * shape.places);
  shape.blocks = static_cast<int>(divide_up(rows, shape.block_rows));
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
inline BackwardShape shape_of(const NestedBackward& op) {
  return shape_for(op.rows, op.hidden, op.heads, vector_size(op));
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
inline BackwardPlan plan_for(const NestedBackward& op) {
  BackwardPlan plan{};
  plan.shape = shape_of(op);
  plan.inverse = 1.0f / static_cast<float>(op.hidden);
  const int rows = plan.shape.places;
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

/// As workspace_bytes(), for vectors of `size` elements.
inline std::size_t workspace_bytes_with(int rows, int hidden, int heads, int size) {
  const BackwardShape shape = shape_for(rows, hidden, heads, size);
  const std::size_t means = shape.parts > 1 ? rows : 0;
  return sizeof(float) * heads * (static_cast<std::size_t>(shape.blocks) * hidden + means);
}

}  // namespace rmsnorm::kernels
