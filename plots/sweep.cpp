#include "plots/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "plots/format.hpp"
#include "plots/line_chart.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

/// A peak further away than this, in multiples of the highest line, is not drawn.
constexpr double kPeakInSight = 1.5;

/// A column of the results over x.
using Curve = std::map<std::int64_t, double>;

/// The curve's points, with gaps at those x where it has none.
std::vector<std::pair<double, double>> points_of(
    const Curve& curve, const std::set<std::int64_t>& all_x) {
  std::vector<std::pair<double, double>> points;
  for (const std::int64_t x : all_x) {
    const auto found = curve.find(x);
    points.emplace_back(static_cast<double>(x), found == curve.end() ? kGap : found->second);
  }
  return points;
}

/// A number that a result may have.
using Column = std::optional<double> Result::*;

/// A column of the results, of one lesson or of all.
Curve curve_of(
    const std::vector<Result>& results, const Sweep& sweep, Column column,
    const std::string& slug = "") {
  Curve curve;
  for (const Result& result : results) {
    if (!slug.empty() && result.lesson != slug) continue;
    if (result.*column) curve[result.*(sweep.x)] = *(result.*column);
  }
  return curve;
}

std::set<std::int64_t> xs_of(const std::vector<Result>& results, const Sweep& sweep) {
  std::set<std::int64_t> xs;
  for (const Result& result : results) xs.insert(result.*(sweep.x));
  return xs;
}

double highest_of(const Curve& curve) {
  double highest = 0;
  for (const auto& [x, y] : curve) highest = std::max(highest, y);
  return highest;
}

/// What stays the same along the sweep.
std::string constant_of(const std::vector<Result>& results, const Sweep& sweep) {
  const Result& first = results.front();
  if (sweep.x == &Result::rows) return fmt::format("hidden {}", first.hidden);
  return fmt::format(
      "about {:.0f} million elements",
      static_cast<double>(first.rows) * static_cast<double>(first.hidden) / 1e6);
}

std::vector<Result> timed_or_refused(const std::vector<Result>& results, const Sweep& sweep) {
  std::vector<Result> found = results_of_regime(results, sweep.regime);
  std::erase_if(found, [](const Result& result) { return result.cache.empty(); });
  return found;
}

std::optional<VerticalMark> l2_mark(
    const std::vector<Result>& results, const Sweep& sweep, std::optional<double> l2_mib) {
  if (!l2_mib || sweep.x != &Result::rows)
    return std::nullopt;  // elsewhere all points are of one size
  const Result& first = results.front();
  const double bytes_per_row = bytes_of_tensors(first) / static_cast<double>(first.rows);
  return VerticalMark{
      *l2_mib * 1024 * 1024 / bytes_per_row, fmt::format("x and y fill the L2, {:g} MiB", *l2_mib)};
}

/// A bound, and the lessons that share it.
struct Bound {
  Curve curve;
  std::vector<std::string> slugs;
};

bool same_where_both_are(const Curve& a, const Curve& b) {
  bool met = false;
  for (const auto& [x, y] : a) {
    const auto found = b.find(x);
    if (found == b.end()) continue;
    if (found->second != y) return false;
    met = true;
  }
  return met;
}

std::vector<Bound> distinct_bounds(
    const std::vector<Result>& results, const Sweep& sweep, const std::vector<std::string>& slugs) {
  std::vector<Bound> bounds;
  for (const std::string& slug : slugs) {
    const Curve curve = curve_of(results, sweep, &Result::error_bound, slug);
    const auto same = std::find_if(bounds.begin(), bounds.end(), [&](const Bound& bound) {
      return same_where_both_are(bound.curve, curve);
    });
    if (same == bounds.end()) {
      bounds.push_back({curve, {slug}});
    } else {
      same->curve.insert(curve.begin(), curve.end());
      same->slugs.push_back(slug);
    }
  }
  return bounds;
}

/// "bound of 03, 04, 05", in as many lines as it needs.
std::vector<std::string> bound_label(const std::vector<std::string>& slugs) {
  constexpr std::size_t kLongest = 27;
  std::vector<std::string> lines = {"bound of"};
  for (std::size_t i = 0; i < slugs.size(); ++i) {
    const std::string word = short_name(slugs[i]) + (i + 1 < slugs.size() ? "," : "");
    if (lines.back().size() + 1 + word.size() > kLongest) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
}

/// Zero has no place on a logarithmic axis.
Curve positive(Curve curve) {
  std::erase_if(curve, [](const auto& point) { return !(point.second > 0); });
  return curve;
}

/// A logarithmic axis that holds all points.
Axis axis_around(const std::vector<ChartLine>& lines) {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  for (const ChartLine& line : lines) {
    for (const auto& [x, y] : line.points) {
      if (!std::isfinite(y)) continue;
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  constexpr double kRoom = 1.6;
  return {low / kRoom, high * kRoom, 10};
}

}  // namespace

const Sweep& sweep_over_rows() {
  static const Sweep sweep{"sweep_rows", &Result::rows, "rows"};
  return sweep;
}

const Sweep& sweep_over_hidden() {
  static const Sweep sweep{"sweep_hidden", &Result::hidden, "hidden"};
  return sweep;
}

std::optional<Chart> sweep_chart(
    const std::vector<Result>& results, const Sweep& sweep, std::optional<double> l2_mib) {
  const std::vector<Result> of_sweep = timed_or_refused(results, sweep);
  if (curve_of(of_sweep, sweep, &Result::gbps).empty()) return std::nullopt;
  const std::set<std::int64_t> xs = xs_of(of_sweep, sweep);
  const std::vector<std::string> all_slugs = slugs_of(results);

  const Result& first = of_sweep.front();
  LineChart chart;
  chart.title = fmt::format(
      "bandwidth over {}, {} {}, {}, {} L2", sweep.x_name, constant_of(of_sweep, sweep),
      first.dtype, first.device, first.cache);
  chart.subtitle = "effective bandwidth in GB/s: x read once and y written once in the median time";
  chart.x_name = sweep.x_name;
  chart.mark = l2_mark(of_sweep, sweep, l2_mib);
  double highest = 0;
  const auto add = [&](const std::string& label, const Curve& curve,
                       const LineStyle& style) -> ChartLine& {
    highest = std::max(highest, highest_of(curve));
    return chart.lines.emplace_back(ChartLine{
        .label = {label},
        .points = points_of(curve, xs),
        .colour = style.colour,
        .dash = style.dash});
  };
  for (const std::string& slug : slugs_of(of_sweep)) {
    add(slug, curve_of(of_sweep, sweep, &Result::gbps, slug), style_of_lesson(all_slugs, slug));
  }
  ChartLine& copy =
      add("measured copy", curve_of(of_sweep, sweep, &Result::copy_gbps),
          {[](const Theme& theme) { return theme.copy; }, "(6,4)"});
  copy.marked = false;
  const Curve peak = curve_of(of_sweep, sweep, &Result::peak_gbps);
  if (highest_of(peak) <= kPeakInSight * highest) {
    ChartLine& line =
        add("data-sheet peak", peak, {[](const Theme& theme) { return theme.peak; }, "(14,5)"});
    line.marked = false;
    line.width = 1.5;
  }
  chart.y = {0, 1.06 * highest};
  return draw(std::move(chart));
}

std::optional<Chart> error_chart(const std::vector<Result>& results, const Sweep& sweep) {
  const std::vector<Result> of_sweep = results_of_regime(results, sweep.regime);
  if (positive(curve_of(of_sweep, sweep, &Result::max_error)).empty()) return std::nullopt;
  const std::set<std::int64_t> xs = xs_of(of_sweep, sweep);
  const std::vector<std::string> all_slugs = slugs_of(results);
  const std::vector<std::string> slugs = slugs_of(of_sweep);

  const std::vector<Result> on_gpu = timed_or_refused(results, sweep);
  const Result& first = on_gpu.empty() ? of_sweep.front() : on_gpu.front();
  LineChart chart;
  chart.title = fmt::format("error over {}, {}, {}", sweep.x_name, first.dtype, first.device);
  chart.subtitle =
      "largest relative error of an element of y, against fp64; dashed: the bound that rounding "
      "can explain";
  chart.x_name = sweep.x_name;
  for (const Bound& bound : distinct_bounds(of_sweep, sweep, slugs)) {
    ChartLine line{
        .label = bound_label(bound.slugs),
        .points = points_of(positive(bound.curve), xs),
        .colour = [](const Theme& theme) { return theme.muted; },
        .width = 1,
        .dash = "(5,4)",
        .marked = false};
    if (bound.slugs.size() == 1)
      line.colour = style_of_lesson(all_slugs, bound.slugs.front()).colour;
    chart.lines.push_back(line);
  }
  for (const std::string& slug : slugs) {
    const Curve curve = positive(curve_of(of_sweep, sweep, &Result::max_error, slug));
    const LineStyle style = style_of_lesson(all_slugs, slug);
    chart.lines.push_back(
        {.label = {slug},
         .points = points_of(curve, xs),
         .colour = style.colour,
         .dash = style.dash});
  }
  chart.y = axis_around(chart.lines);
  return draw(std::move(chart));
}

}  // namespace rmsnorm::plots
