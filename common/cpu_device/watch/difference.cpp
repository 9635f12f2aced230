#include "common/cpu_device/watch/difference.hpp"

#include <algorithm>
#include <vector>

namespace rmsnorm::cpu_device {
namespace {

/// The reader's lines of calls from number `begin` on.
std::vector<SourceLine> lines_from(std::size_t begin, const Arrival& arrival) {
  std::vector<SourceLine> lines;
  for (std::size_t i = begin; i < arrival.calls.size() && arrival.calls[i] != nullptr; ++i) {
    const std::vector<SourceLine>& more = user_lines(arrival.calls[i]);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

}  // namespace

std::optional<LinePair> difference(const Arrival& first, const Arrival& second) {
  if (!is_same_line(first.location, second.location)) {
    return LinePair{line_of(first.location), line_of(second.location)};
  }
  const auto same = std::ranges::mismatch(first.calls, second.calls).in1 - first.calls.begin();
  const std::vector<SourceLine> ours = lines_from(static_cast<std::size_t>(same), first);
  const std::vector<SourceLine> others = lines_from(static_cast<std::size_t>(same), second);
  const auto [our, other] = std::ranges::mismatch(ours, others);
  // Behind the kernel, and where the compiler has lost a line, nothing can be told.
  if (our == ours.end() || other == others.end() || our->line == 0 || other->line == 0) return {};
  return LinePair{*our, *other};
}

}  // namespace rmsnorm::cpu_device
