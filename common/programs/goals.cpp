#include "common/programs/goals.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/records/row_cost.hpp"

namespace rmsnorm {
namespace {

/// What one line contributes, or nothing if it has no part in the quantity.
std::optional<double> part_of(const LineCount& count, const Goal& goal, const Watched& launch) {
  const auto a_row = [&](std::int64_t all) { return ratio(all, launch.rows); };
  const auto part = [](bool is_there, double value) {
    return is_there ? std::optional(value) : std::nullopt;
  };
  const double row_bytes = static_cast<double>(bytes_of(launch.types.dtype)) * launch.hidden;
  const bool loads_x = count.kind == "global load" && count.what == "x";
  const double reads_of_x = a_row(count.sectors * kSectorBytes) / row_bytes;
  switch (goal.quantity) {
    case Quantity::barriers:
      return part(count.kind == "barrier", a_row(count.requests));
    case Quantity::triggers:
      return part(count.kind == "trigger", ratio(count.requests, launch.observation.blocks));
    case Quantity::requests:
      return part(is_global(count), a_row(count.requests));
    case Quantity::wavefronts:
      return part(count.wavefronts > 0, a_row(count.wavefronts));
    case Quantity::bank_conflicts:
      return part(count.conflicts > 0, a_row(count.conflicts));
    case Quantity::reads_of_x:
      return part(loads_x, reads_of_x);
    case Quantity::unkept_x:
      return part(loads_x && count.policy != "evict_last", reads_of_x);
    case Quantity::most_sectors:
    case Quantity::fewest_sectors:
      return part(is_global(count), ratio(count.sectors, count.requests));
    case Quantity::lanes_a_request:
      return part(is_global(count), ratio(count.lanes, count.requests));
  }
  return std::nullopt;
}

bool is_within(double counted, const Goal& goal) {
  constexpr double kRounding = 1e-9;
  return goal.bound == Goal::at_most ? counted <= goal.limit * (1 + kRounding)
                                     : counted >= goal.limit * (1 - kRounding);
}

}  // namespace

bool is_of_worst_line(Quantity quantity) {
  return quantity == Quantity::most_sectors || quantity == Quantity::fewest_sectors ||
         quantity == Quantity::lanes_a_request;
}

Outcome judge(const Goal& goal, const Watched& launch) {
  std::vector<std::pair<double, LineCount>> parts;
  for (const LineCount& line : launch.observation.lines) {
    if (const auto value = part_of(line, goal, launch)) parts.emplace_back(*value, line);
  }
  // The worst first; where they are equal, in the order of the source.
  std::stable_sort(parts.begin(), parts.end(), [&](const auto& a, const auto& b) {
    return goal.bound == Goal::at_most ? a.first > b.first : a.first < b.first;
  });

  Outcome outcome;
  if (is_of_worst_line(goal.quantity)) {
    if (parts.empty()) return outcome;  // nothing was asked for: no goal about requests is reached
    outcome.counted = parts.front().first;
    std::erase_if(parts, [&](const auto& part) { return is_within(part.first, goal); });
  } else {
    for (const auto& [value, line] : parts) outcome.counted += value;
    if (goal.bound == Goal::at_least) parts.clear();  // what is missing is on no line
  }
  outcome.reached = is_within(outcome.counted, goal);
  if (!outcome.reached) outcome.parts = parts;
  return outcome;
}

}  // namespace rmsnorm
