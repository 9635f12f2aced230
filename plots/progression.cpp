#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plots/bars.hpp"
#include "plots/charts.hpp"
#include "plots/format.hpp"

namespace rmsnorm::plots {
namespace {

/// A peak further away than this, in multiples of the highest bar, is told and not drawn.
constexpr double kPeakInSight = 2.5;

enum Kind { kOfLesson, kOfVariant };

Bar bar_of(const Result& r) {
  Bar bar;
  bar.kind = is_variant(r.implementation) ? kOfVariant : kOfLesson;
  bar.value = r.gbps;
  if (!r.gbps) {
    bar.text = {to_string(r.verdict)};
    return bar;
  }
  bar.spread_pct = std::clamp(r.spread_pct.value_or(0), 0.0, 100.0);
  if (const auto pct = percent_of_copy(r)) bar.text.push_back(percent(*pct));
  if (r.median_us) bar.text.push_back(microseconds(*r.median_us));
  return bar;
}

/// A roof over all groups.
Roof roof_of(const char* name, double gbps, std::size_t groups, Colour colour, const char* dash) {
  return {
      std::vector<std::optional<double>>(groups, gbps),
      {name, gigabytes_per_second(gbps)},
      std::move(colour),
      dash};
}

}  // namespace

std::string progression_name(const std::vector<Result>& results, const Condition& condition) {
  for (const Condition& other : timed_conditions(results)) {
    if (other.regime == condition.regime && other.cache != condition.cache) {
      return fmt::format("progression_{}_{}", condition.regime, to_string(*condition.cache));
    }
  }
  return "progression_" + condition.regime;
}

Chart progression_chart(const std::vector<Result>& results, const Condition& condition) {
  const std::vector<Result> shown = only(results, [&](const Result& r) {
    return condition_of(r) == condition && (r.gbps || r.verdict != Verdict::pass);
  });
  BarChart chart;
  chart.kinds = {{[](const Theme& theme) { return theme.bar; }}, {[](const Theme& theme) {
                   return theme.variant;
                 }}};
  chart.subtitle = "effective bandwidth in GB/s; share of the measured copy; time of a launch";
  std::optional<double> copy;
  std::optional<double> peak;
  double highest = 0;
  for (const Result& r : shown) {
    chart.groups.push_back({{r.implementation}, {bar_of(r)}});
    chart.title = fmt::format(
        "{}, {} × {} {}, {}, {} L2", r.regime, r.rows, r.hidden, r.dtype, r.device, cache_text(r));
    if (r.copy_gbps) copy = r.copy_gbps;
    if (r.peak_gbps) peak = r.peak_gbps;
    highest = std::max({highest, r.gbps.value_or(0), copy.value_or(0)});
  }
  const std::size_t groups = chart.groups.size();
  if (copy) {
    chart.roofs.push_back(roof_of(
        "measured copy", *copy, groups, [](const Theme& theme) { return theme.copy; }, "(6,4)"));
  }
  if (peak && *peak <= kPeakInSight * highest) {
    chart.roofs.push_back(roof_of(
        "data-sheet peak", *peak, groups, [](const Theme& theme) { return theme.peak; }, "(14,5)"));
  } else if (peak) {
    chart.subtitle +=
        fmt::format("; the data-sheet peak, {}, is above the chart", gigabytes_per_second(*peak));
  }
  return draw(std::move(chart));
}

}  // namespace rmsnorm::plots
