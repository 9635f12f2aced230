#pragma once
/// \file
/// What lesson 13's backward pass promises: bytes of memory, and additions on the way into a sum.

#include <cstddef>

#include "lessons/13_backward/shape.hpp"

namespace rmsnorm::backward {

/// As Backward::workspace_bytes: the blocks' shares of dweight, and the means of rows in parts.
inline std::size_t workspace_bytes(const BackwardProblem& p) {
  const Shape shape = shape_for(p);
  const std::size_t means = shape.parts > 1 ? p.rows : 0;
  return sizeof(float) * (static_cast<std::size_t>(shape.blocks) * p.hidden + means);
}

/// As Backward::traffic. A row costs x, dy and dx; a block costs the weight, and its share of
/// dweight, which is written, and read once more.
inline Traffic traffic(const BackwardProblem& p) {
  const Shape shape = shape_for(p);
  const double row = 1.0 * p.hidden * bytes_of(p.dtype);
  // Of a vector of 8, the factors and the shares are two vectors of fp32: a request for either half
  // touches the sectors of both.
  const double halves = shape.size == 8 ? 2 : 1;
  double weight = 0;
  if (p.weight != nullptr) {
    weight = p.hidden * bytes_of(p.weight_dtype) * (p.weight_dtype == Dtype::fp32 ? halves : 1);
  }
  const double rstd = shape.threads * shape.parts;  // a sector a warp
  const double warps_with_all = shape.places > 1 ? kMostThreads / 32 : 1;
  const double blocks_of_row = static_cast<double>(shape.blocks) / std::max(1, p.rows);
  Traffic result{.read = 2 * row + rstd + blocks_of_row * warps_with_all * weight, .written = row};
  if (shape.parts > 1) {
    result.read += 2 * row + kMostThreads + weight + rstd;  // for the mean, and the mean
    result.written += 32;
  }
  if (p.dweight != nullptr) {
    const double share = blocks_of_row * p.hidden * 4;
    result.read += share;
    result.written += share * (shape.places > 1 ? 1 : halves);
    result.written += 1.0 * p.hidden * bytes_of(p.weight_dtype) / std::max(1, p.rows);
  }
  return result;
}

/// As Backward::row_depth: a thread's own additions, then those of two warps' shuffles.
inline int row_depth(const BackwardProblem& p) {
  const Shape shape = shape_for(p);
  const auto threads = shape.parts > 1 ? kMostThreads : shape.threads;
  return static_cast<int>(divide_up(p.hidden / shape.size, threads)) * shape.size + 5 + 5;
}

/// As Backward::column_depth: those of a thread, of the rows that a block has at a time, of every
/// 32nd block, and of 32 warps.
inline int column_depth(const BackwardProblem& p) {
  const Shape shape = shape_for(p);
  return shape.block_rows / shape.places + shape.places +
         static_cast<int>(divide_up(shape.blocks, 32)) + 32;
}

}  // namespace rmsnorm::backward
