#pragma once
/// \file
/// How lesson 11 spreads an operation over the GPU.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "lessons/11_any_tensor/any_tensor.hpp"

namespace rmsnorm::any_tensor {

/// What kind of rows a kernel is for.
enum class Kind {
  plain,    ///< aligned, of one tensor, at one distance from each other
  aligned,  ///< aligned
  longest,  ///< aligned, and longer than a block's registers
  ragged,   ///< of any length, at any address
};

/// A launch.
struct Plan {
  Kind kind;                     ///< which kernel
  int threads;                   ///< of a row: 4 to 32 lanes of a warp, or whole warps
  int vectors;                   ///< of a row that each of them keeps in registers, 16 bytes each
  int rows;                      ///< of a block; 1 unless a row has fewer than kShortRows threads
  int staged;                    ///< vectors that each thread keeps in shared memory
  std::int64_t first_blocks;     ///< blocks of tensors[0]; those of tensors[1] follow
  std::int64_t blocks;           ///< of both
  float inverse;                 ///< 1 / hidden
  cuda::access_property policy;  ///< of x in the L2 cache
};

/// The threads of a block of several rows, and the fewest of any block. An SM holds 32 blocks at
/// most: of smaller ones, those of the next launch that wait could take places that this one needs.
constexpr int kShortRows = 128;

/// The most threads of a block, where a row has kRowThreads or, if that is 0, a block.
template <int kRowThreads>
constexpr int kMostThreads = kRowThreads > 0 ? kShortRows : 512;

/// The lanes of a warp that share a short row, two vectors for each: 4, 8, 16 or 32.
inline int lanes_for(int vectors) {
  const auto lanes = std::bit_ceil((static_cast<unsigned>(vectors) + 1) / 2);
  return std::clamp(static_cast<int>(lanes), 4, 32);
}

/// The plan's shape for aligned rows of so many vectors. The numbers were found by measurement.
inline void shape_aligned(int vectors, Plan& plan) {
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
    constexpr int kMostStaged = 12;  // times 1024 threads and 16 bytes: 192 KiB
    plan.kind = Kind::longest;
    plan.vectors = 4;
    plan.threads = vectors <= 4096 ? 512 : 1024;
    plan.staged = std::min(kMostStaged, (vectors - 1) / plan.threads + 1 - plan.vectors);
  }
}

/// The plan's shape for rows of so many vectors at any address.
inline void shape_ragged(int vectors, Plan& plan) {
  plan.kind = Kind::ragged;
  if (vectors <= 64) {
    plan.vectors = 2;
    plan.threads = lanes_for(vectors);
  } else if (vectors <= 128) {
    plan.vectors = vectors <= 96 ? 3 : 4;
    plan.threads = 32;
  } else {
    plan.vectors = 3;
    plan.threads = std::clamp(((vectors - 1) / 3 / 32 + 1) * 32, kShortRows, 512);
  }
}

/// The shared memory of a block in which threads keep vectors.
inline int staged_bytes(const Plan& plan) {
  return plan.staged * plan.threads * 16;
}

/// Makes the plan one for a GPU whose blocks can have so many bytes: of what does not fit, the
/// kernel reads x twice.
inline void stage_at_most(int bytes, Plan& plan) {
  plan.staged = std::min(plan.staged, bytes / (plan.threads * 16));
}

/// Are all rows whole vectors of 16 bytes, at 16-byte addresses?
inline bool is_aligned(const Operation& op) {
  std::uintptr_t all = static_cast<std::uintptr_t>(op.hidden) * bytes_of(op.dtype);
  for (const Tensor& tensor : op.tensors) {
    all |= reinterpret_cast<std::uintptr_t>(tensor.weight);
    for (const Rows& rows : {tensor.x, tensor.y}) {
      all |= reinterpret_cast<std::uintptr_t>(rows.data) | rows.outer_stride | rows.inner_stride;
    }
  }
  return all % 16 == 0;
}

/// The launch of an operation.
inline Plan plan_for(const Operation& op) {
  Plan plan{};
  const int bytes = bytes_of(op.dtype);
  const int vectors = op.hidden / (16 / bytes);
  const Tensor& first = op.tensors[0];
  const Tensor& second = op.tensors[1];
  const bool same_weights = (first.weight == nullptr) == (second.weight == nullptr);
  if (is_aligned(op) && (second.rows == 0 || same_weights)) {
    const bool is_plain = second.rows == 0 && first.inner >= first.rows;
    plan.kind = is_plain ? Kind::plain : Kind::aligned;
    shape_aligned(vectors, plan);
  } else {
    shape_ragged(vectors, plan);
  }
  plan.rows = std::max(1, kShortRows / plan.threads);
  plan.first_blocks = (first.rows + plan.rows - 1) / plan.rows;
  plan.blocks = plan.first_blocks + (second.rows + plan.rows - 1) / plan.rows;
  plan.inverse = 1.0f / static_cast<float>(op.hidden);

  // Of x and y together. Where there is less, the L2 need not choose what it keeps.
  constexpr double kMuch = 32e6;
  const double x_and_y = 2.0 * bytes * op.hidden * static_cast<double>(first.rows + second.rows);
  if (x_and_y >= kMuch) plan.policy = cuda::access_property::persisting();
  return plan;
}

/// What a row of the harness costs, if it is aligned: x and y once, twice what of x neither
/// registers nor shared memory hold, and the weight once for all rows that one warp holds.
inline Traffic traffic(const TypedProblem& p) {
  const Plan plan = plan_for(operation_of(p));
  const double x = 1.0 * bytes_of(p.dtype) * p.hidden;
  const double held = 16.0 * plan.threads * (plan.vectors + plan.staged);
  const double weight = p.weight == nullptr ? 0 : 1.0 * bytes_of(p.weight_dtype) * p.hidden;
  const double rows_of_warp = std::max(1.0, 32.0 / plan.threads);
  return {.read = x + std::max(0.0, x - held) + weight / rows_of_warp, .written = x};
}

/// The additions of a vector's squares, those of a thread's vectors and edges, of a warp and of the
/// warps, of which no more than hidden add something; and one for 1 / hidden, which is rounded
/// before it is a factor.
inline int sum_depth(const TypedProblem& p) {
  const Plan plan = plan_for(operation_of(p));
  const int size = 16 / bytes_of(p.dtype);
  const int most = size + p.hidden / size / plan.threads + 1 + 30 / plan.threads + 1 + 5 + 5;
  return std::min(p.hidden, most) + 1;
}

}  // namespace rmsnorm::any_tensor
