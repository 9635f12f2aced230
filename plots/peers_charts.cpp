#include <fmt/format.h>

#include <bit>
#include <string>
#include <utility>

#include "plots/bars.hpp"
#include "plots/charts.hpp"
#include "plots/peers.hpp"

namespace rmsnorm::plots {
namespace {

/// Whether a result or a case is a point of the chart of lines.
template <class Measured>
bool is_on_the_line(const Measured& it) {
  return it.regime == "forward" && it.dtype == "bf16" &&
         std::has_single_bit(static_cast<std::uint64_t>(it.hidden));
}

/// The bar of a result; its unit is in the chart's subtitle.
Bar bar_of(const Result* result, std::size_t kind, bool is_about_time) {
  Bar bar{.kind = kind};
  if (result == nullptr) return bar;
  bar.value = is_about_time ? result->median_us : percent_of_copy(*result);
  if (!bar.value) {
    bar.text = {to_string(result->verdict)};
  } else {
    bar.text = {fmt::format("{:.{}f}", *bar.value, !is_about_time ? 0 : *bar.value < 10 ? 2 : 1)};
  }
  return bar;
}

std::vector<std::string> label_of(const PeerCase& which) {
  std::vector<std::string> lines = {
      which.dtype, fmt::format("{} ×", which.rows), fmt::format("{}", which.hidden)};
  if (!which.is_about_time()) lines.insert(lines.begin(), which.name());
  return lines;
}

/// The bars of some cases, where anything was timed.
template <class Wanted>
std::optional<Chart> bars_of(
    const std::vector<Result>& results, const char* title, const char* subtitle, Wanted is_wanted) {
  BarChart chart;
  const std::vector<std::string> names = implementations_of(results);
  for (std::size_t i = 0; i < names.size(); ++i) chart.kinds.push_back({line_colour(i), names[i]});
  Roof copy{{}, {"measured copy"}, [](const Theme& theme) { return theme.copy; }, "(6,4)"};
  for (const PeerCase& which : peer_cases_of(results)) {
    if (!is_wanted(which) || !which.copy_gbps) continue;
    BarGroup& group = chart.groups.emplace_back(BarGroup{label_of(which)});
    for (std::size_t i = 0; i < names.size(); ++i)
      group.bars.push_back(bar_of(which.results[i], i, which.is_about_time()));
    copy.values.push_back(which.is_about_time() ? which.copy_us : 100);
  }
  if (chart.groups.empty()) return std::nullopt;
  chart.title = fmt::format("{}, {}, cold L2", title, results.front().device);
  chart.subtitle = subtitle;
  chart.roofs = {copy};
  return draw(std::move(chart));
}

}  // namespace

std::optional<Chart> peers_forward_chart(const std::vector<Result>& results) {
  const Sweep forward{"forward", &Result::hidden, "hidden", "forward"};
  const auto others_too = only(results, [](const Result& result) {  // for their colours
    return result.regime != "forward" || is_on_the_line(result);
  });
  return sweep_chart(others_too, forward, {});
}

std::optional<Chart> peers_decode_chart(const std::vector<Result>& results) {
  return bars_of(
      results, "decode", "median time of a launch in a CUDA graph, in µs; rows × hidden below",
      [](const PeerCase& which) { return which.is_about_time(); });
}

std::optional<Chart> peers_other_chart(const std::vector<Result>& results) {
  return bars_of(
      results, "other shapes and operations",
      "bandwidth in % of a copy of as many bytes; rows × hidden below",
      [](const PeerCase& which) { return !which.is_about_time() && !is_on_the_line(which); });
}

}  // namespace rmsnorm::plots
