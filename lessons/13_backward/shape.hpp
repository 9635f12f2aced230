#pragma once
/// \file
/// How threads share the rows of a backward pass. Nothing here asks for the GPU: its sums have to
/// be the same on every one.

#include <algorithm>
#include <bit>
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace rmsnorm::backward {

constexpr int kMostThreads = 512;  ///< of a block: each can have 128 registers
constexpr int kMostVectors = 4;    ///< of a row, that a thread can keep
constexpr int kPartVectors = 2;    ///< that it keeps of a row that is too long

/// How a problem is shared out.
struct Shape {
  int size;        ///< elements of a vector: 16 bytes, or 1 element where tensors are not aligned
  int vectors;     ///< of a row, that a thread keeps
  int threads;     ///< of a row, or of one of its parts
  int places;      ///< rows that a block has at a time
  int parts;       ///< of a row, each with blocks of its own; 1 if a block can keep the row
  int block_rows;  ///< rows of a block
  int blocks;      ///< of each part
};

/// a / b, rounded up.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The shape for a problem.
inline Shape shape_for(const BackwardProblem& p) {
  const int bytes = bytes_of(p.dtype);
  auto addresses = static_cast<std::uintptr_t>(p.hidden) * bytes;
  for (const void* data : {p.x, p.dy, p.weight, static_cast<const void*>(p.dx)}) {
    addresses |= reinterpret_cast<std::uintptr_t>(data);
  }
  Shape shape{};
  shape.size = addresses % 16 == 0 ? 16 / bytes : 1;
  const int vectors = p.hidden / shape.size;

  // One vector for each thread; more where a warp or a block can then keep the row.
  const bool fits_warp = vectors > 32 && vectors <= 64;
  const int needed = static_cast<int>(divide_up(vectors, kMostThreads));
  shape.vectors = shape.size == 1          ? kMostVectors
                  : fits_warp              ? 2
                  : needed <= kMostVectors ? needed
                                           : kPartVectors;
  const auto threads = static_cast<unsigned>(divide_up(vectors, shape.vectors));
  shape.threads = static_cast<int>(std::clamp(std::bit_ceil(threads), 8u, 512u));
  shape.places = shape.threads <= 32 ? kMostThreads / shape.threads : 1;
  shape.parts = static_cast<int>(divide_up(vectors, shape.threads * shape.vectors));

  constexpr int kGridThreads = 1 << 17;     // about half of what the largest GPUs have at a time
  constexpr std::int64_t kFewestTurns = 4;  // else shares cost more than rows
  const int blocks = std::max(1, kGridThreads / (shape.threads * shape.places * shape.parts));
  const std::int64_t turns = divide_up(divide_up(p.rows, blocks), shape.places);
  shape.block_rows = static_cast<int>(std::max(kFewestTurns, turns) * shape.places);
  shape.blocks = static_cast<int>(divide_up(p.rows, shape.block_rows));
  return shape;
}

/// The workspace: first the blocks' shares of dweight, (blocks, hidden).
inline float* shares_of(const BackwardProblem& p) {
  return static_cast<float*>(p.workspace);
}

/// Behind them, for rows in parts, the rows' means of g * n, (rows).
inline float* means_of(const BackwardProblem& p, const Shape& shape) {
  return shares_of(p) + shape.blocks * std::int64_t{p.hidden};
}

}  // namespace rmsnorm::backward
