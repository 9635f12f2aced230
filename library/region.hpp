#pragma once
/// \file
/// Which bytes a tensor has, and whether two tensors share some.

#include <cstdint>

namespace rmsnorm::library {

constexpr int kRowDimensions = 3;  ///< of a tensor, without the columns

/// The bytes of rows in three dimensions.
struct Region {
  std::int64_t begin;                   ///< address of row (0, 0, 0)
  std::int64_t size[kRowDimensions];    ///< rows in each dimension
  std::int64_t stride[kRowDimensions];  ///< bytes between them
  std::int64_t row_bytes;               ///< of one row

  /// How many rows there are.
  std::int64_t rows() const { return size[0] * size[1] * size[2]; }

  /// Is it nothing at all?
  bool is_empty() const;
  /// Are they the same rows, in the same order?
  bool operator==(const Region& other) const;
};

/// Do any two rows share a byte? True also for rows that only interleave: of some two
/// dimensions, neither lies within the other.
bool rows_overlap(const Region& region);

/// Do the regions share a byte? The answer is exact for regions with the same strides, neither with
/// rows that overlap, as parts of one tensor have them. Others are taken to share what is between
/// their first byte and their last.
bool share_memory(const Region& a, const Region& b);

}  // namespace rmsnorm::library
