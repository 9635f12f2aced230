#pragma once
/// \file
/// Where the rows of a tensor lie: the one view of them that all kernels take.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

namespace rmsnorm::kernels {

/// The rows of a tensor (outer, inner, hidden). Columns lie side by side; rows lie anywhere, at
/// addresses that are multiples of the element's size.
struct Rows {
  void* data;                 ///< row (0, 0), column 0
  std::int64_t outer_stride;  ///< bytes from row (i, j) to row (i + 1, j); may be 0 or negative
  std::int64_t inner_stride;  ///< bytes from row (i, j) to row (i, j + 1); may be 0 or negative
};

/// How much a kernel of the backward pass knows of where rows lie: what it can leave out.
enum class Variant {
  plain,  ///< one tensor, or several alike, with rows at one distance
  rows,   ///< rows at two distances
  any,    ///< at three, and heads with a weight of their own
};

/// The bits that are set in the address of any row: where the lowest four are not, all rows begin
/// at multiples of 16 bytes.
inline std::uintptr_t address_bits(std::initializer_list<Rows> tensors) {
  std::uintptr_t bits = 0;
  for (const Rows& rows : tensors) {
    bits |= reinterpret_cast<std::uintptr_t>(rows.data) | rows.outer_stride | rows.inner_stride;
  }
  return bits;
}

/// The same operation with an inner dimension that is no shorter than the outer: where a line of
/// the grid has the rows of one outer index, so that no thread has to divide, lines are few then.
/// `tensors` are all that have rows.
template <class Operation>
Operation with_short_outer(Operation op, std::initializer_list<Rows Operation::*> tensors) {
  if (op.rows == 0) return op;
  op.inner = std::min(op.inner, op.rows);
  const std::int64_t outer = op.rows / op.inner;
  if (outer <= op.inner) return op;
  op.inner = outer;
  for (const auto tensor : tensors) {
    Rows& rows = op.*tensor;
    std::swap(rows.outer_stride, rows.inner_stride);
  }
  std::swap(op.weight_outer_stride, op.weight_inner_stride);
  return op;
}

}  // namespace rmsnorm::kernels
