#pragma once
/// \file
/// Where the rows of a tensor lie: the one view of them that all kernels take.

#include <cstdint>
#include <initializer_list>

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

}  // namespace rmsnorm::kernels
