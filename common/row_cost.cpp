#include "common/row_cost.hpp"

#include <cmath>
#include <cstdint>

namespace rmsnorm {

void add(const LineCount& count, std::int64_t rows, RowCost& to) {
  const double of_row = 1 / static_cast<double>(rows);
  const double bytes = static_cast<double>(count.sectors) * kSectorBytes * of_row;
  if (count.kind == "global load") to.read += bytes;
  if (count.kind == "global store") to.written += bytes;
  if (count.kind.starts_with("global")) {
    to.requests += static_cast<double>(count.requests) * of_row;
  }
  to.wavefronts += static_cast<double>(count.wavefronts) * of_row;
  if (count.kind == "barrier") to.barriers += static_cast<double>(count.requests) * of_row;
  if (count.kind == "shuffle") to.shuffles += static_cast<double>(count.requests) * of_row;
}

RowCost row_cost(const std::vector<LineCount>& counts, std::int64_t rows) {
  RowCost cost;
  for (const LineCount& count : counts) add(count, rows, cost);
  return cost;
}

bool is_predictable(const Problem& p) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(p.x) |
                         reinterpret_cast<std::uintptr_t>(p.weight) |
                         reinterpret_cast<std::uintptr_t>(p.y);
  constexpr int kFloatsOfSector = kSectorBytes / static_cast<int>(sizeof(float));
  return p.rows > 0 && p.rows % 32 == 0 && p.hidden % kFloatsOfSector == 0 &&
         addresses % kSectorBytes == 0;
}

bool is_as_predicted(const RowCost& cost, const Traffic& predicted) {
  constexpr double kTolerance = 0.01;
  return std::abs(cost.read - predicted.read) <= kTolerance * predicted.read &&
         std::abs(cost.written - predicted.written) <= kTolerance * predicted.written;
}

}  // namespace rmsnorm
