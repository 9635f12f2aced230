#pragma once
/// \file
/// How a norm to 8 bits is spread over the GPU: as a forward launch of the same rows, wherever that
/// keeps them in the registers of a block. So norm has the same bits.

#include "library/kernels/forward_plan.hpp"
#include "library/kernels/fp8.hpp"

namespace rmsnorm::kernels {

/// The forward launch of the same rows. Of the tensors, it is as if only x and the weight were
/// there.
inline HeadsForward forward_of(const Fp8Norm& op) {
  HeadsForward forward(Forward{{}, op.hidden, op.dtype, op.weight_dtype, op.eps, op.weight_bias});
  forward.tensors[0] = {op.x, op.x, op.weight, nullptr, op.rows, op.inner};
  forward.weight_head[0] = op.weight_outer_stride | op.weight_inner_stride;
  forward.step_bits = op.step_columns * bytes_of(op.dtype);
  return forward;
}

/// What is set in the place of any row, in elements of its tensor, and in the length of a row:
/// where a number's lower bits are not, vectors of so many elements begin at multiples of it.
inline std::uintptr_t columns_bits(const Fp8Norm& op) {
  return static_cast<std::uintptr_t>(op.hidden | op.step_columns) | address_bits({op.y}) |
         address_bits({op.x, op.residual, op.norm}) / bytes_of(op.dtype);
}

/// Can vectors of 16 bytes of x be what a thread moves?
inline bool is_aligned(const Fp8Norm& op) {
  return columns_bits(op) % (16 / bytes_of(op.dtype)) == 0 && is_aligned(forward_of(op));
}

/// Is the norm rounded to the type of x, to be stored or for y?
inline bool is_rounded(const Fp8Norm& op) {
  return op.rounds_twice || op.norm.data != nullptr;
}

/// Does a row fill the vectors of its threads, beside a weight? Kernels for such rows need not ask
/// what is there.
inline bool is_full(const Fp8Norm& op, const ForwardPlan& plan) {
  const int vectors = plan.threads * plan.vectors * plan.twins;
  return op.weight != nullptr && vectors_of(forward_of(op)) == vectors;
}

/// The lanes that share a power, a vector each.
inline int power_lanes(const Fp8Norm& op) {
  return op.power_columns * bytes_of(op.dtype) / 16;
}

/// Is each thread to do the work of two? With a second reduction and conversions, half as many
/// threads with twice as many vectors each have less to do beside them. That pays off in launches
/// of many rows. A residual or a second rounding leaves no registers for it. For rows that share a
/// block, there are kernels for full ones alone.
inline bool has_twins(const Fp8Norm& op, const ForwardPlan& plan) {
  if (!plan.is_large || plan.kind != Kind::aligned || plan.vectors != 2) return false;
  if (op.residual.data != nullptr || is_rounded(op)) return false;
  if (op.scales == Scales::powers && plan.threads / 2 < power_lanes(op)) return false;
  return plan.threads >= kShortRows ? plan.threads % 64 == 0
                                    : plan.threads >= 8 && is_full(op, plan);
}

/// The outer indices that a launch has.
inline std::int64_t outer_of(const Fp8Norm& op) {
  return op.rows == 0 ? 0 : op.rows / op.inner;
}

/// Is a block to prefetch a row ahead of its own? Not where an SM has so many blocks that they load
/// enough, which takes more if they have a scale to find, too, before they store.
inline bool prefetches_ahead(const Fp8Norm& op, const ForwardPlan& plan) {
  if (plan.threads <= 128 || op.residual.data != nullptr) return false;
  const int blocks = 1024 / plan.threads;  // of an SM: with 64 registers a thread
  const bool is_enough = blocks >= 4 && blocks * op.hidden * bytes_of(op.dtype) >= 60 << 10;
  return op.scales != Scales::given || !is_enough;
}

constexpr int kFp8ClusterVectors = 4;  ///< of 16 bytes of x, that each thread of a cluster has

/// The shape for rows of so many vectors, which are more than a block holds: as many small blocks
/// as there may be. (Fewer large ones are slower.)
inline ForwardShape fp8_cluster_for(int vectors) {
  const bool are_small = vectors <= kMaxCluster * kFp8ClusterVectors * 256;
  const int of_block = kFp8ClusterVectors * (are_small ? 256 : kMaxClusterThreads);
  return cluster_shape(vectors, kFp8ClusterVectors, (vectors - 1) / of_block + 1);
}

/// Vectors of each block of a cluster but the last: whole groups.
constexpr int fp8_part_of(int vectors, int cluster) {
  constexpr int kGroups = 32;  // vectors: one group of fp32, or two of 16 bits
  return ((vectors - 1) / (cluster * kGroups) + 1) * kGroups;
}

/// The shared memory of a block of a cluster: all vectors of its threads.
inline int fp8_staged_bytes(const Fp8Norm& op, const ForwardPlan& plan) {
  const int tensors = op.residual.data == nullptr ? 1 : 2;
  return tensors * plan.threads * kFp8ClusterVectors * 16;
}

/// Is the block of a row to be split in two, which are a cluster? Where a residual is held, too,
/// smaller blocks with a row in their shared memory are faster, if rows are many.
inline bool splits(const Fp8Norm& op, const ForwardPlan& plan) {
  return op.residual.data != nullptr && plan.is_large && plan.kind == Kind::aligned &&
         plan.vectors == kFp8ClusterVectors && plan.threads > 256;
}

/// Have the blocks of a cluster been one?
inline bool is_split(const ForwardPlan& plan) {
  return plan.stride > plan.threads;
}

/// The launch of an operation, on the current device: as that of its forward launch, but for twins,
/// for a block that is split, if it may be, and for blocks, which are those of one outer index.
inline ForwardPlan plan_for(const Fp8Norm& op, const ForwardShape& shape, bool may_split) {
  ForwardPlan plan = partition_for(forward_of(op), shape);
  if (has_twins(op, plan)) {
    plan.threads /= 2, plan.twins = 2;
    if (plan.threads < 64) plan.rows = kShortRows / plan.threads;
  }
  const std::int64_t row_bytes = std::int64_t{op.hidden} * bytes_of(op.dtype);
  if (shape.kind == Kind::aligned && prefetches_ahead(op, plan))
    plan.prefetch_distance = prefetch_distance(row_bytes, op.inner, 32 << 10);
  if (shape.kind == Kind::cluster) {
    plan.part = fp8_part_of(vectors_of(forward_of(op)), plan.cluster);
    plan.stride = plan.threads;
  } else if (may_split && splits(op, plan)) {
    plan.kind = Kind::cluster, plan.cluster = 2;
    plan.stride = plan.threads;
    plan.threads = plan.part = threads_for(plan.stride, 2);
  }
  plan.blocks = (op.inner + plan.rows - 1) / plan.rows * plan.cluster;
  const int tensors = op.residual.data == nullptr ? 1 : 2;
  plan.prefetching_blocks = prefetching_blocks(
      tensors * plan.rows * row_bytes / plan.cluster, plan.blocks * outer_of(op));
  return plan;
}

/// The shape for the kernel that takes everything.
inline ForwardShape shape_for_any(const Fp8Norm& op) {
  return {Kind::mixed, mixed_threads(op.hidden), 0, 1};
}

/// The shape of an operation: of Kind::aligned or Kind::cluster, or of Kind::mixed for the kernel
/// that takes everything. Returns what the CUDA calls returned.
inline cudaError_t shape_on_device(const Fp8Norm& op, ForwardShape* shape) {
  *shape = {Kind::aligned, 0, 0, 1};
  const HeadsForward forward = forward_of(op);
  // Too short, if it has no lane for each vector of a power's columns.
  const bool is_short =
      op.scales == Scales::powers && lanes_for(vectors_of(forward)) < power_lanes(op);
  if (is_aligned(op) && !has_odd_weight(forward) && !is_short) {
    const cudaError_t error = shape_on_device(forward, shape);
    if (error != cudaSuccess || shape->kind == Kind::aligned) return error;
    const int vectors = vectors_of(forward);
    constexpr int kMost = kMaxCluster * kMaxClusterThreads * kFp8ClusterVectors;
    if (has_clusters() && vectors <= kMost) {
      *shape = fp8_cluster_for(vectors);
      return cudaSuccess;
    }
  }
  *shape = shape_for_any(op);
  return cudaSuccess;
}

}  // namespace rmsnorm::kernels
