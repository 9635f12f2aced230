#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "plots/charts.hpp"
#include "plots/format.hpp"
#include "plots/line_chart.hpp"

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

/// A column of the results, of one implementation or of all.
Curve curve_of(
    const std::vector<Result>& results, const Sweep& sweep, Column column,
    const std::string& name = "") {
  Curve curve;
  for (const Result& result : results) {
    if (!name.empty() && result.implementation != name) continue;
    if (result.*column) curve[result.*(sweep.x)] = *(result.*column);
  }
  return curve;
}

std::set<std::int64_t> xs_of(const std::vector<Result>& results, const Sweep& sweep) {
  std::set<std::int64_t> xs;
  for (const Result& result : results) xs.insert(result.*(sweep.x));
  return xs;
}

/// The implementations of all results and how their lines look: the same in every chart.
struct Lines {
  explicit Lines(const std::vector<Result>& results) : names(implementations_of(results)) {}

  ChartLine line_of(const std::string& name) const {
    const auto place =
        static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    ChartLine line;
    line.label = {name};
    line.colour = line_colour(place);
    if (place >= kLineColours) line.dash = "(12,3)";
    return line;
  }

  std::vector<std::string> names;
};

double highest_of(const Curve& curve) {
  double highest = 0;
  for (const auto& [x, y] : curve) highest = std::max(highest, y);
  return highest;
}

/// Those in a sweep that are not only verified.
std::vector<Result> to_be_timed(const std::vector<Result>& results, const Sweep& sweep) {
  return only(of_regime(results, sweep.regime), [](const Result& r) { return r.cache; });
}

std::optional<VerticalMark> l2_mark(
    const std::vector<Result>& results, const Sweep& sweep, std::optional<double> l2_mib) {
  if (!l2_mib || sweep.x != &Result::rows)
    return std::nullopt;  // elsewhere all points are of one size
  const Result& first = results.front();
  const auto bytes_per_row = static_cast<double>(first.bytes / first.rows);
  return VerticalMark{
      *l2_mib * 1024 * 1024 / bytes_per_row, fmt::format("x and y fill the L2, {:g} MiB", *l2_mib)};
}

/// A bound, and the implementations that share it.
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

std::vector<Bound> distinct_bounds(const std::vector<Result>& results, const Sweep& sweep) {
  std::vector<Bound> bounds;
  for (const std::string& slug : implementations_of(results)) {
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

std::optional<Chart> sweep_chart(
    const std::vector<Result>& results, const Sweep& sweep, std::optional<double> l2_mib) {
  const std::vector<Result> of_sweep = to_be_timed(results, sweep);
  if (curve_of(of_sweep, sweep, &Result::gbps).empty()) return std::nullopt;
  const std::set<std::int64_t> xs = xs_of(of_sweep, sweep);

  const Result& first = of_sweep.front();
  LineChart chart;
  chart.title = fmt::format(
      "bandwidth over {}, {}, {}, {}, {} L2", sweep.x_name, sweep.constant, first.dtype,
      first.device, cache_text(first));
  chart.subtitle =
      "effective bandwidth in GB/s: what has to be moved at least, in the median time of a launch";
  chart.x_name = sweep.x_name;
  chart.mark = l2_mark(of_sweep, sweep, l2_mib);
  double highest = 0;
  const auto add = [&](ChartLine line, const Curve& curve) {
    highest = std::max(highest, highest_of(curve));
    line.points = points_of(curve, xs);
    chart.lines.push_back(std::move(line));
  };
  const Lines lines(results);
  for (const std::string& name : lines.names)
    add(lines.line_of(name), curve_of(of_sweep, sweep, &Result::gbps, name));
  ChartLine roof;
  roof.label = {"measured copy"};
  roof.colour = [](const Theme& theme) { return theme.copy; };
  roof.dash = "(6,4)";
  roof.marked = false;
  add(roof, curve_of(of_sweep, sweep, &Result::copy_gbps));
  const Curve peak = curve_of(of_sweep, sweep, &Result::peak_gbps);
  if (highest_of(peak) <= kPeakInSight * highest) {
    roof.label = {"data-sheet peak"};
    roof.colour = [](const Theme& theme) { return theme.peak; };
    roof.dash = "(14,5)";
    roof.width = 1.5;
    add(roof, peak);
  }
  chart.y = {0, 1.06 * highest};
  return draw(std::move(chart));
}

std::optional<Chart> error_chart(const std::vector<Result>& results, const Sweep& sweep) {
  const std::vector<Result> of_sweep = of_regime(results, sweep.regime);
  if (positive(curve_of(of_sweep, sweep, &Result::max_error)).empty()) return std::nullopt;
  const std::set<std::int64_t> xs = xs_of(of_sweep, sweep);

  const std::vector<Result> on_gpu = to_be_timed(results, sweep);
  const Result& first = on_gpu.empty() ? of_sweep.front() : on_gpu.front();
  LineChart chart;
  chart.title = fmt::format("error over {}, {}, {}", sweep.x_name, first.dtype, first.device);
  chart.subtitle =
      "largest relative error of an element of y, against fp64; dashed: the bound that rounding "
      "can explain";
  chart.x_name = sweep.x_name;
  const Lines lines(results);
  for (const Bound& bound : distinct_bounds(of_sweep, sweep)) {
    ChartLine line;
    line.label = bound_label(bound.slugs);
    line.points = points_of(positive(bound.curve), xs);
    line.colour = [](const Theme& theme) { return theme.muted; };
    if (bound.slugs.size() == 1) line.colour = lines.line_of(bound.slugs.front()).colour;
    line.width = 1;
    line.dash = "(5,4)";
    line.marked = false;
    chart.lines.push_back(line);
  }
  for (const std::string& name : lines.names) {
    ChartLine line = lines.line_of(name);
    line.points = points_of(positive(curve_of(of_sweep, sweep, &Result::max_error, name)), xs);
    chart.lines.push_back(line);
  }
  chart.y = axis_around(chart.lines);
  return draw(std::move(chart));
}

}  // namespace rmsnorm::plots
