#pragma once
/// \file
/// How a forward launch is spread over the GPU.

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "library/kernels/forward.hpp"
#include "library/kernels/forward_shape.hpp"
#include "library/kernels/launch.hpp"
#include "library/kernels/mixed.hpp"

namespace rmsnorm::kernels {

/// A launch. What all kernels read comes first, beside the operation: constants are near, too, once
/// a line of them has been read.
struct ForwardPlan {
  float inverse;                 ///< 1 / hidden
  int threads;                   ///< of a row: 4 to 32 lanes of a warp, or whole warps
  bool is_large;                 ///< x and y do not fit the L2 cache
  bool is_plain;                 ///< one tensor, whose rows are at one distance, without rstd
  bool is_fallback;              ///< another kernel does the same: a vector is not at a 16-byte
                                 ///< address, or the GPU does not hold a cluster
  unsigned prefetching_blocks;   ///< the first blocks, which prefetch their rows before the wait
  cuda::access_property policy;  ///< of x in the L2 cache: persisting if is_large
  Kind kind;                     ///< which kernel
  int vectors;                   ///< of 16 bytes, that each thread has of a row
  int twins;                     ///< to 8 bits: 2 if each thread does the work of two
  int rounds;                    ///< unaligned: vectors of each thread, in registers or not
  int rows;                      ///< of a block; 1 unless one has fewer than kShortRows threads
  int prefetch_distance;         ///< in rows; 0: none is prefetched
  int cluster;                   ///< blocks that share a row; 1 unless kind is Kind::cluster
  int part;                      ///< of a row: vectors of each block but the last
  int stride;                    ///< to 8 bits, of a cluster: from a thread's vector to its next
  int staged;                    ///< vectors that each thread keeps in shared memory
  std::int64_t first_blocks;     ///< blocks, or clusters, of tensors[0]; tensors[1]'s follow
  std::int64_t blocks;           ///< of both tensors
  std::int64_t weight_head[2];   ///< the operation's
};

/// The most threads of a block for an unaligned row.
constexpr int kMaxUnalignedThreads = 512;

/// The shape for rows of so many vectors and a part of one.
inline ForwardShape shape_unaligned(int vectors) {
  if (vectors <= 64) return {Kind::unaligned, lanes_for(vectors), 2, 1};
  if (vectors <= 128) return {Kind::unaligned, 32, vectors <= 96 ? 3 : 4, 1};
  const int of_thread = vectors <= 3 * kMaxUnalignedThreads ? 3 : 4;
  const int threads = std::clamp(threads_for(vectors, of_thread), kShortRows, kMaxUnalignedThreads);
  return {Kind::unaligned, threads, of_thread, 1};
}

/// The shared memory of a block in which threads keep vectors.
inline int staged_bytes(const ForwardPlan& plan) {
  return plan.staged * plan.threads * 16;
}

/// Makes the plan one for a GPU whose blocks can have so many bytes: of what does not fit, the
/// kernel reads x twice.
inline void stage_at_most(int bytes, ForwardPlan& plan) {
  plan.staged = std::min(plan.staged, bytes / (plan.threads * 16));
}

/// The most threads of a block of the fallback.
constexpr int kMaxFallbackThreads = 1024;

/// Those of a row, in one block, whatever the plan has for it.
inline int fallback_threads(const ForwardPlan& plan) {
  return std::min(kMaxFallbackThreads, plan.cluster * plan.threads);
}

/// Are all rows whole vectors of 16 bytes, at 16-byte addresses?
inline bool is_aligned(const HeadsForward& op) {
  std::uintptr_t bits = static_cast<std::uintptr_t>(op.hidden) * bytes_of(op.dtype) | op.step_bits;
  for (const Tensor& tensor : op.tensors) {
    bits |= address_bits({tensor.x, tensor.y}) | reinterpret_cast<std::uintptr_t>(tensor.weight);
  }
  for (const std::int64_t bytes : op.weight_head) bits |= bytes;
  return bits % 16 == 0;
}

/// Is there a weight of 16 bits that are not x's type? Few kernels know that.
inline bool has_odd_weight(const Forward& op) {
  const bool has_weight = op.tensors[0].weight != nullptr || op.tensors[1].weight != nullptr;
  return has_weight && is_odd(op.weight_dtype, op.dtype);
}

/// Vectors of a row, without what fills none.
inline int vectors_of(const Forward& op) {
  return op.hidden / (16 / bytes_of(op.dtype));
}

/// The shape of an operation by the formula, on a GPU that has clusters or not. It follows from
/// hidden and the types: wherever a row lies, its squares are added in one order.
inline ForwardShape shape_by_formula(const Forward& op, bool has_clusters) {
  if (has_odd_weight(op)) return {Kind::mixed, mixed_threads(op.hidden), kKeptGroups, 1};
  const int vectors = vectors_of(op);
  const bool are_whole = vectors * (16 / bytes_of(op.dtype)) == op.hidden;
  return are_whole ? shape_by_formula(vectors, has_clusters) : shape_unaligned(vectors);
}

/// Vectors of a row that each thread keeps in shared memory.
inline int staged_of(int vectors, const ForwardShape& shape) {
  constexpr int kMaxStaged = 12;  // times 1024 threads and 16 bytes: 192 KiB
  if (shape.kind == Kind::cluster) return shape.vectors;
  if (shape.kind != Kind::long_rows) return 0;
  return std::min(kMaxStaged, (vectors - 1) / shape.threads + 1 - shape.vectors);
}

/// How a launch in a shape that is for its rows shares them: a plan without what depends on the
/// current device, or on the bytes that a kernel loads.
inline ForwardPlan partition_for(const HeadsForward& op, const ForwardShape& shape) {
  ForwardPlan plan{};
  const int vectors = vectors_of(op);
  const Tensor& first = op.tensors[0];
  const Tensor& second = op.tensors[1];
  plan.kind = shape.kind;
  std::copy(op.weight_head, op.weight_head + 2, plan.weight_head);
  plan.is_plain = second.rows == 0 && first.inner >= first.rows && first.rstd == nullptr &&
                  plan.weight_head[0] == 0;
  plan.is_fallback = shape.kind != Kind::unaligned && shape.kind != Kind::mixed && !is_aligned(op);
  plan.threads = shape.threads;
  plan.vectors = shape.vectors;
  plan.twins = 1;
  plan.cluster = shape.cluster;
  plan.rounds = shape.kind == Kind::unaligned ? (vectors - 1) / shape.threads + 1 : 0;
  plan.part = part_of(vectors, shape.cluster);
  plan.staged = staged_of(vectors, shape);
  plan.rows = std::max(1, kShortRows / plan.threads);
  plan.first_blocks = (first.rows + plan.rows - 1) / plan.rows;
  plan.blocks = plan.cluster * (plan.first_blocks + (second.rows + plan.rows - 1) / plan.rows);
  plan.inverse = 1.0f / static_cast<float>(op.hidden);

  // Of x and y together. Where there is less, the L2 need not choose what it keeps.
  constexpr double kMuch = 32e6;
  const auto rows = static_cast<double>(first.rows + second.rows);
  const double x_and_y = 2.0 * bytes_of(op.dtype) * op.hidden * rows;
  plan.is_large = x_and_y >= kMuch;
  if (plan.is_large) plan.policy = cuda::access_property::persisting();
  return plan;
}

/// The launch of an operation in a shape that is for its rows, on the current device.
inline ForwardPlan plan_for(const HeadsForward& op, const ForwardShape& shape) {
  ForwardPlan plan = partition_for(op, shape);
  const std::int64_t row_bytes = std::int64_t{op.hidden} * bytes_of(op.dtype);
  if (plan.kind == Kind::unaligned && plan.rows == 1 && plan.is_plain)
    plan.prefetch_distance = prefetch_distance(row_bytes, op.tensors[0].rows);
  plan.prefetching_blocks = prefetching_blocks(plan.rows * row_bytes / plan.cluster, plan.blocks);
  int most = 0;
  if (!plan.is_fallback && staged_bytes(plan) > kSharedBytes &&
      most_shared_bytes(&most) == cudaSuccess)
    stage_at_most(most, plan);
  return plan;
}

/// The shape of an operation on the current device: the table's (tuned.hpp) or, if that has none,
/// the formula's. Returns what the CUDA calls returned; after an error, it is one for any GPU.
cudaError_t shape_on_device(const HeadsForward& op, ForwardShape* shape);

/// As launch() in forward.hpp, in a shape that is for the operation's rows.
cudaError_t launch_in_shape(const HeadsForward& op, const ForwardShape& shape, cudaStream_t stream);

}  // namespace rmsnorm::kernels
