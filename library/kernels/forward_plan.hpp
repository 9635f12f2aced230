#pragma once
/// \file
/// How a forward launch is spread over the GPU.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "library/kernels/forward.hpp"

namespace rmsnorm::kernels {

/// What kind of rows a kernel is for.
enum class Kind {
  aligned,    ///< whole vectors of 16 bytes, at 16-byte addresses
  cluster,    ///< aligned, and held by the registers of a block of 512 threads, or of up to 8 such
  long_rows,  ///< aligned, and longer than those
  unaligned,  ///< of any length, at any address
};

/// A launch.
struct ForwardPlan {
  Kind kind;                     ///< which kernel
  bool is_plain;                 ///< one tensor, whose rows are at one distance, without rstd
  int threads;                   ///< of a row: 4 to 32 lanes of a warp, or whole warps
  int vectors;                   ///< of a row that each of them keeps in registers, 16 bytes each
  int rounds;                    ///< unaligned: vectors of each thread, in registers or not
  int rows;                      ///< of a block; 1 unless a row has fewer than kShortRows threads
  int cluster;                   ///< blocks that share a row; 1 unless kind is Kind::cluster
  int staged;                    ///< vectors that each thread keeps in shared memory
  std::int64_t first_blocks;     ///< blocks, or clusters, of tensors[0]; tensors[1]'s follow
  std::int64_t blocks;           ///< of both
  float inverse;                 ///< 1 / hidden
  cuda::access_property policy;  ///< of x in the L2 cache
};

/// The threads of a block of several rows, and the fewest of any block. An SM holds 32 blocks at
/// most: of smaller ones, those of the next launch that wait could take places that this one needs.
constexpr int kShortRows = 128;

/// The most threads of a block, where a row has kRowThreads or, if that is 0, a block.
template <int kRowThreads>
constexpr int kMaxThreads = kRowThreads > 0 ? kShortRows : 512;

/// The most threads of a block for an unaligned row.
constexpr int kMaxUnalignedThreads = 256;

constexpr int kClusterThreads = 512;  ///< of a block that shares a row with others, at most
constexpr int kClusterVectors = 8;    ///< of a row that each of them keeps
constexpr int kMaxCluster = 8;        ///< such blocks that every GPU with clusters can hold

/// The lanes of a warp that share a short row, two vectors for each: 4, 8, 16 or 32.
inline int lanes_for(int vectors) {
  const auto lanes = std::bit_ceil((static_cast<unsigned>(vectors) + 1) / 2);
  return std::clamp(static_cast<int>(lanes), 4, 32);
}

/// The plan's shape for aligned rows that registers do not hold: what of them does not fit there
/// waits in shared memory.
inline void shape_long(int vectors, ForwardPlan& plan) {
  constexpr int kMaxStaged = 12;  // times 1024 threads and 16 bytes: 192 KiB
  plan.kind = Kind::long_rows;
  plan.vectors = 4;
  plan.threads = vectors <= 4096 ? 512 : 1024;
  plan.staged = std::min(kMaxStaged, (vectors - 1) / plan.threads + 1 - plan.vectors);
}

/// The plan's shape for aligned rows of so many vectors. The numbers were found by measurement.
inline void shape_aligned(int vectors, ForwardPlan& plan) {
  if (vectors <= 64) {
    plan.vectors = 2;
    plan.threads = lanes_for(vectors);
  } else if (vectors <= 128) {
    plan.vectors = 2;
    plan.threads = 64;
  } else if (vectors <= 2048) {
    plan.vectors = vectors <= 512 ? 2 : vectors <= 1024 ? 4 : vectors <= 1536 ? 3 : 4;
    plan.threads = std::max(128, ((vectors - 1) / plan.vectors / 32 + 1) * 32);
  } else {
    shape_long(vectors, plan);
  }
}

/// The same for rows that a cluster can keep, on GPUs that have clusters. Of up to twice as many
/// blocks as are needed, takes as many as let an SM, with its 1024 threads of 64 registers, hold
/// the most vectors, if it is clearly more.
inline void shape_for_cluster(int vectors, ForwardPlan& plan) {
  constexpr int kThreadsOfSm = 2 * kClusterThreads;
  const int needed = (vectors - 1) / (kClusterThreads * kClusterVectors) + 1;
  if (plan.kind != Kind::long_rows || needed > kMaxCluster) return;
  plan.kind = Kind::cluster;
  plan.vectors = kClusterVectors;
  plan.staged = 0;
  int most = 0;
  for (int cluster = needed; cluster <= std::min(2 * needed, kMaxCluster); ++cluster) {
    const int part = (vectors - 1) / cluster + 1;
    const int threads = ((part - 1) / kClusterVectors / 32 + 1) * 32;
    const int last_part = vectors - (cluster - 1) * part;
    const int on_sm = kThreadsOfSm / threads * part;
    if (on_sm <= most + most / 16 || last_part < (kClusterVectors - 1) * threads) continue;
    most = on_sm;
    plan.cluster = cluster;
    plan.threads = threads;
  }
}

/// The plan's shape for rows of so many vectors at any address.
inline void shape_unaligned(int vectors, ForwardPlan& plan) {
  plan.kind = Kind::unaligned;
  if (vectors <= 64) {
    plan.vectors = 2;
    plan.threads = lanes_for(vectors);
  } else if (vectors <= 128) {
    plan.vectors = vectors <= 96 ? 3 : 4;
    plan.threads = 32;
  } else {
    plan.vectors = vectors <= 3 * kShortRows ? 3 : 6;
    const int threads = ((vectors - 1) / plan.vectors / 32 + 1) * 32;
    plan.threads = std::clamp(threads, kShortRows, kMaxUnalignedThreads);
  }
  plan.rounds = (vectors - 1) / plan.threads + 1;
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

/// Are all rows whole vectors of 16 bytes, at 16-byte addresses?
inline bool is_aligned(const Forward& op) {
  std::uintptr_t bits = static_cast<std::uintptr_t>(op.hidden) * bytes_of(op.dtype);
  for (const Tensor& tensor : op.tensors) {
    bits |= address_bits({tensor.x, tensor.y}) | reinterpret_cast<std::uintptr_t>(tensor.weight);
  }
  return bits % 16 == 0;
}

/// The launch of an operation, on a GPU that has clusters or not.
inline ForwardPlan plan_for(const Forward& op, bool has_clusters) {
  ForwardPlan plan{};
  plan.cluster = 1;
  const int bytes = bytes_of(op.dtype);
  const int vectors = op.hidden / (16 / bytes);
  const Tensor& first = op.tensors[0];
  const Tensor& second = op.tensors[1];
  plan.is_plain = second.rows == 0 && first.inner >= first.rows && first.rstd == nullptr;
  const bool same_weights = (first.weight == nullptr) == (second.weight == nullptr);
  if (is_aligned(op) && (second.rows == 0 || same_weights)) {
    plan.kind = Kind::aligned;
    shape_aligned(vectors, plan);
    if (has_clusters) shape_for_cluster(vectors, plan);
  } else {
    shape_unaligned(vectors, plan);
  }
  plan.rows = std::max(1, kShortRows / plan.threads);
  plan.first_blocks = (first.rows + plan.rows - 1) / plan.rows;
  plan.blocks = plan.cluster * (plan.first_blocks + (second.rows + plan.rows - 1) / plan.rows);
  plan.inverse = 1.0f / static_cast<float>(op.hidden);

  // Of x and y together. Where there is less, the L2 need not choose what it keeps.
  constexpr double kMuch = 32e6;
  const double x_and_y = 2.0 * bytes * op.hidden * static_cast<double>(first.rows + second.rows);
  if (x_and_y >= kMuch) plan.policy = cuda::access_property::persisting();
  return plan;
}

}  // namespace rmsnorm::kernels
