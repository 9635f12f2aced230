#include "plots/peers_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "plots/grouped_bars.hpp"
#include "plots/line_chart.hpp"
#include "plots/peers.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

bool is_on_the_line(const PeerCase& which) {
  return which.regime == "forward" && which.dtype == "bf16" && which.hidden > 0 &&
         std::has_single_bit(static_cast<std::uint64_t>(which.hidden));
}

bool is_in_the_rest(const PeerCase& which) {
  return !is_on_the_line(which) && !is_about_time(which);
}

/// The cases of a chart in which anything was timed.
template <class Wanted>
std::vector<PeerCase> timed_cases(const std::vector<Result>& results, Wanted wanted) {
  std::vector<PeerCase> cases = peer_cases_of(results);
  std::erase_if(cases, [&](const PeerCase& which) {
    return !wanted(which) || !copy_gbps_of(results, which);
  });
  return cases;
}

/// A contender has the same colour in every chart.
std::function<std::string(const Theme&)> colour_of(std::size_t contender) {
  return [=](const Theme& theme) { return theme.lines[contender % kLineColours]; };
}

/// The bar of a result; its unit is in the chart's subtitle.
Bar bar_of(const Result* result, const PeerCase& which) {
  if (result == nullptr) return {};
  if (!result->median_us) return {{}, result->verdict};
  if (is_about_time(which)) {
    const double us = *result->median_us;
    return {us, fmt::format("{:.{}f}", us, us < 10 ? 2 : 1)};
  }
  const auto pct = percent_of_copy(*result);
  return {pct, pct ? fmt::format("{:.0f}", *pct) : ""};
}

std::vector<std::string> label_of(const PeerCase& which) {
  std::vector<std::string> lines = {
      fmt::format("{} ×", which.rows), fmt::format("{}", which.hidden)};
  if (!is_about_time(which)) lines.insert(lines.begin(), {operation_of(which), which.dtype});
  return lines;
}

GroupedBars grouped(const std::vector<Result>& results, const std::vector<PeerCase>& cases) {
  GroupedBars bars;
  const std::vector<std::string> contenders = contenders_of(results);
  for (std::size_t i = 0; i < contenders.size(); ++i)
    bars.kinds.push_back({contenders[i], colour_of(i)});
  for (const PeerCase& which : cases) {
    BarGroup& group = bars.groups.emplace_back(BarGroup{label_of(which), {}, {}});
    group.roof = is_about_time(which) ? copy_us_of(results, which) : 100;
    for (const std::string& contender : contenders)
      group.bars.push_back(bar_of(find_peer(results, which, contender), which));
  }
  bars.roof_name = "measured copy";
  return bars;
}

}  // namespace

std::optional<Chart> peers_forward_chart(const std::vector<Result>& results) {
  std::vector<PeerCase> cases = timed_cases(results, is_on_the_line);
  if (cases.empty()) return std::nullopt;
  std::sort(cases.begin(), cases.end(), [](const PeerCase& a, const PeerCase& b) {
    return a.hidden < b.hidden;
  });
  LineChart chart;
  chart.title = fmt::format("forward, bf16, {}, cold L2", results.front().device);
  chart.subtitle = "effective bandwidth in GB/s: x read once and y written once in the median time";
  chart.x_name = "hidden";
  double highest = 0;
  const auto add = [&](const std::string& name, auto colour, auto gbps_of) -> ChartLine& {
    ChartLine line{.label = {name}, .points = {}, .colour = colour};
    for (const PeerCase& which : cases) {
      const std::optional<double> gbps = gbps_of(which);
      highest = std::max(highest, gbps.value_or(0));
      line.points.emplace_back(static_cast<double>(which.hidden), gbps.value_or(kGap));
    }
    return chart.lines.emplace_back(std::move(line));
  };
  const std::vector<std::string> contenders = contenders_of(results);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    add(contenders[i], colour_of(i), [&](const PeerCase& which) {
      const Result* result = find_peer(results, which, contenders[i]);
      return result == nullptr ? std::nullopt : result->gbps;
    });
  }
  ChartLine& copy = add(
      "measured copy", [](const Theme& theme) { return theme.copy; },
      [&](const PeerCase& which) { return copy_gbps_of(results, which); });
  copy.dash = "(6,4)";
  copy.marked = false;
  chart.y = {0, 1.06 * highest};
  return draw(std::move(chart));
}

std::optional<Chart> peers_decode_chart(const std::vector<Result>& results) {
  const std::vector<PeerCase> cases = timed_cases(results, is_about_time);
  if (cases.empty()) return std::nullopt;
  GroupedBars bars = grouped(results, cases);
  bars.title = fmt::format("decode, {}, {}, cold L2", cases.front().dtype, results.front().device);
  bars.subtitle = "median time of a launch in a CUDA graph, in µs; rows × hidden below";
  return draw(std::move(bars));
}

std::optional<Chart> peers_other_chart(const std::vector<Result>& results) {
  const std::vector<PeerCase> cases = timed_cases(results, is_in_the_rest);
  if (cases.empty()) return std::nullopt;
  GroupedBars bars = grouped(results, cases);
  bars.title = fmt::format("other shapes and operations, {}, cold L2", results.front().device);
  bars.subtitle = "bandwidth in % of a copy of as many bytes; rows × hidden below";
  return draw(std::move(bars));
}

}  // namespace rmsnorm::plots
