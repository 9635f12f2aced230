#pragma once
/// \file
/// How the library's blocks share a row.

#include <cstdint>
#include <vector>

#include "common/contract/dtype.hpp"

namespace tests {

/// Bytes of shared memory in which a block keeps an aligned row on a GPU without clusters.
///
/// \param vectors  of the row, 16 bytes each
/// \param most     bytes that a block of the GPU can have
int staged_bytes_of_row(int vectors, int most);

/// Rows that a forward launch may get.
struct PlannedRows {
  int hidden;              ///< columns
  rmsnorm::Dtype dtype;    ///< of x and y
  std::int64_t rows;       ///< how many
  std::int64_t inner;      ///< of them, in the inner dimension
  std::uintptr_t address;  ///< of x and y
  bool wants_rstd;         ///< for training
};

/// All of the launch's plan on which the order of a row's additions depends, and so its bits.
std::vector<std::int64_t> order_of_additions(const PlannedRows& rows);

}  // namespace tests
