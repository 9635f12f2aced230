#pragma once
/// \file
/// How lesson 11 spreads an operation over the GPU.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "lessons/11_any_tensor/any_tensor.hpp"

namespace rmsnorm::any_tensor {

/// Threads of a block in which rows have a warp or less each.
constexpr int kShortRows = 256;

/// How threads share a row, and rows a block.
struct Shape {
  int threads;  ///< of a row: a power of two up to 32, or a multiple of 32 up to 1024
  int vectors;  ///< of a thread at a time: 1, 2 or 4 with up to 32 threads, 2, 4 or 8 with more
  int rows;     ///< of a block
};

/// The shape for rows of so many vectors.
inline Shape shape_for(int vectors) {
  for (const int own : {1, 2, 4}) {
    const int lanes = static_cast<int>(std::bit_ceil((vectors - 1u) / own + 1));
    if (lanes <= 32) return {lanes, own, kShortRows / lanes};
  }
  const int own = vectors <= 2048 ? 2 : vectors <= 4096 ? 4 : 8;
  const int warps = (vectors - 1) / own / 32 + 1;
  return {std::min(warps * 32, 1024), own, 1};
}

/// Are all vectors of 16 bytes of all rows at 16-byte addresses, and full?
inline bool is_aligned(const Operation& op, int element_bytes) {
  std::uintptr_t all = static_cast<std::uintptr_t>(op.hidden) * element_bytes;
  for (const Tensor& tensor : op.tensors) {
    all |= reinterpret_cast<std::uintptr_t>(tensor.weight);
    for (const Rows& rows : {tensor.x, tensor.y}) {
      all |= reinterpret_cast<std::uintptr_t>(rows.data) | rows.outer_stride | rows.inner_stride;
    }
  }
  return all % 16 == 0;
}

/// A launch.
struct Plan {
  bool aligned;               ///< is_aligned()
  Shape shape;                ///< of each block
  std::int64_t first_blocks;  ///< of tensors[0]; those of tensors[1] follow
  std::int64_t blocks;        ///< of both
  int last;                   ///< the first column of a row's last chunk
};

/// The launch of an operation.
inline Plan plan_for(const Operation& op, int element_bytes) {
  const int size = 16 / element_bytes;
  const bool aligned = is_aligned(op, element_bytes);
  const int shift = aligned ? 0 : size - 1;  // of a row's first column in its vector, at most
  const Shape shape = shape_for((op.hidden + shift - 1) / size + 1);
  const auto blocks_for = [&](const Tensor& t) { return (t.rows + shape.rows - 1) / shape.rows; };
  const std::int64_t first = blocks_for(op.tensors[0]);
  const int chunk = shape.threads * shape.vectors * size;
  const int last = (op.hidden + shift - 1) / chunk * chunk;
  return {aligned, shape, first, first + blocks_for(op.tensors[1]), last};
}

/// What a row of the harness costs, if it is aligned: x and y once, twice what is not in the first
/// chunk of x, and the weight once for all rows that one warp holds.
inline Traffic traffic(const TypedProblem& p) {
  const int bytes = bytes_of(p.dtype);
  const int weight_bytes = p.weight == nullptr ? 0 : bytes_of(p.weight_dtype);
  const Shape shape = shape_for((p.hidden * bytes - 1) / 16 + 1);
  const int kept = std::min(p.hidden, shape.threads * shape.vectors * 16 / bytes);
  const double rows_of_warp = std::max(1.0, 32.0 / shape.threads);
  const double read = bytes * (2.0 * p.hidden - kept) + weight_bytes * p.hidden / rows_of_warp;
  return {.read = read, .written = 1.0 * bytes * p.hidden};
}

/// The additions of a vector's squares, those of a thread's vectors, of a warp and of the warps.
inline int sum_depth(const TypedProblem& p) {
  const int size = 16 / bytes_of(p.dtype);
  const int vectors = (p.hidden + size - 2) / size + 1;
  return size + (vectors - 1) / shape_for(vectors).threads + 1 + 5 + 5;
}

}  // namespace rmsnorm::any_tensor
