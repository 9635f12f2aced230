#pragma once
/// \file
/// What a row costs: the counts of a launch, divided by its rows.

#include <cstdint>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"

namespace rmsnorm {

/// What one row costs, the mean over a launch.
struct RowCost {
  double read = 0;        ///< bytes asked of global memory, in whole sectors of 32 bytes
  double written = 0;     ///< likewise
  double from_peers = 0;  ///< likewise, of the memory of other ranks
  double to_peers = 0;    ///< likewise
  double requests = 0;    ///< of warps to global memory, loads and stores
  double wavefronts = 0;  ///< of shared memory, read and written
  double barriers = 0;    ///< of blocks: one that serves two rows counts half for each
  double shuffles = 0;    ///< of warps
};

/// Whether global memory was loaded or stored.
bool is_global(const LineCount& count);

/// A quotient of counts; of none, by one.
double ratio(std::int64_t a, std::int64_t b);

/// Adds a count of a launch over `rows` rows.
void add(const LineCount& count, std::int64_t rows, RowCost& to);

/// The cost of a row in a launch over `rows` rows, at least one.
RowCost row_cost(const std::vector<LineCount>& counts, std::int64_t rows);

}  // namespace rmsnorm
