#include "common/records/row_cost.hpp"

#include <algorithm>

namespace rmsnorm {

bool is_global(const LineCount& count) {
  return count.kind.starts_with("global");
}

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(1, b));
}

void add(const LineCount& count, std::int64_t rows, RowCost& to) {
  const double of_row = 1 / static_cast<double>(rows);
  const double bytes = static_cast<double>(count.sectors) * kSectorBytes * of_row;
  if (count.kind == "global load" || count.kind == "bulk load") to.read += bytes;
  if (count.kind == "global store") to.written += bytes;
  if (count.kind == "peer load") to.from_peers += bytes;
  if (count.kind == "peer store") to.to_peers += bytes;
  if (is_global(count)) {
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

}  // namespace rmsnorm
