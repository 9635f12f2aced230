#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "plots/charts.hpp"
#include "plots/format.hpp"
#include "plots/line_chart.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kNoPoint = std::numeric_limits<double>::quiet_NaN();

/// As many grey lines as have a place for their names.
constexpr std::size_t kFew = 5;

/// Numbers over x.
using Curve = std::map<std::int64_t, double>;
using Points = std::vector<std::pair<double, double>>;

/// The curve's points, with gaps at those x where it has none.
Points points_of(const Curve& curve, const std::set<std::int64_t>& all_x) {
  Points points;
  for (const std::int64_t x : all_x) {
    const auto found = curve.find(x);
    points.emplace_back(static_cast<double>(x), found == curve.end() ? kNoPoint : found->second);
  }
  return points;
}

/// A number that an implementation's results may have.
template <class Column>
Curve curve_of(
    const std::vector<Result>& results, const Sweep& sweep, Column column,
    const std::string& name) {
  Curve curve;
  for (const Result& result : results) {
    const auto value = std::invoke(column, result);
    if (result.implementation == name && value) curve[result.*(sweep.x)] = *value;
  }
  return curve;
}

std::set<std::int64_t> xs_of(const std::vector<Result>& results, const Sweep& sweep) {
  std::set<std::int64_t> xs;
  for (const Result& result : results) xs.insert(result.*(sweep.x));
  return xs;
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

/// Where the sweep's first implementation is most ahead of its second one.
std::string finding(
    const std::vector<Result>& of_sweep, const Sweep& sweep, const std::string& otherwise) {
  const Curve lead = curve_of(of_sweep, sweep, percent_of_roof, sweep.coloured[0]);
  const Curve behind = curve_of(of_sweep, sweep, percent_of_roof, sweep.coloured[1]);
  double most = 0;
  std::int64_t where = 0;
  for (const auto& [x, share] : lead) {
    const auto other = behind.find(x);
    if (other == behind.end() || share / other->second <= most) continue;
    most = share / other->second;
    where = x;
  }
  if (most <= 1) return otherwise;
  return fmt::format(
      "{} is up to {} times as fast as {}: at {} {}", sweep.coloured[0], factor(most),
      sweep.coloured[1], binary_count(where), sweep.unit);
}

/// Zero has no place on a logarithmic axis.
Curve positive(Curve curve) {
  std::erase_if(curve, [](const auto& point) { return !(point.second > 0); });
  return curve;
}

/// A logarithmic axis that holds all points.
Axis axis_around(const std::vector<Points>& all) {
  Extent extent;
  for (const Points& points : all)
    for (const auto& [x, y] : points)
      if (std::isfinite(y)) extent.hold(y);
  constexpr double kRoom = 1.6;
  return {extent.low / kRoom, extent.high * kRoom, 10};
}

/// What the errors of the implementations span; no point where none has one.
Band band_of(const std::vector<Result>& results, const Sweep& sweep) {
  Curve low;
  Curve high;
  for (const std::string& name : implementations_of(results)) {
    for (const auto& [x, y] : positive(curve_of(results, sweep, &Result::max_error, name))) {
      low[x] = std::min(low.emplace(x, y).first->second, y);
      high[x] = std::max(high[x], y);
    }
  }
  return {{low.begin(), low.end()}, {high.begin(), high.end()}, family_colour, {}};
}

}  // namespace

std::optional<Chart> sweep_chart(
    const std::vector<Result>& results, const Sweep& sweep, std::optional<double> l2_mib) {
  const std::vector<Result> of_sweep = to_be_timed(results, sweep);
  const std::set<std::int64_t> xs = xs_of(of_sweep, sweep);
  const Colour colours[] = {accent<0>, accent<1>, accent<2>};

  std::vector<ChartLine> family;
  std::vector<ChartLine> coloured;
  std::vector<const Result*> disturbed;
  double highest = 0;
  double lowest = sweep.has_others ? 0 : 100;
  for (const std::string& name : implementations_of(of_sweep)) {
    const Curve curve = curve_of(of_sweep, sweep, percent_of_roof, name);
    const auto place = std::ranges::find(sweep.coloured, name) - sweep.coloured;
    const bool is_coloured = place < std::ssize(sweep.coloured);
    if (curve.empty() || (!is_coloured && !sweep.has_others)) continue;
    for (const auto& [x, y] : curve) {
      highest = std::max(highest, y);
      lowest = std::min(lowest, y);
    }
    for (const Result& r : of_sweep)
      if (r.implementation == name && r.disturbed && percent_of_roof(r)) disturbed.push_back(&r);
    ChartLine line{
        .label = {name},
        .points = points_of(curve, xs),
        .colour = is_coloured ? colours[place] : family_colour,
        .width = is_coloured ? 2.4 : 1.3,
        .marked = is_coloured};
    (is_coloured ? coloured : family).push_back(line);
  }
  if (highest == 0) return std::nullopt;

  const Result& first = of_sweep.front();
  const std::string roof_name = "measured " + word_for_roof(of_sweep);
  LineChart chart;
  chart.title = finding(of_sweep, sweep, fmt::format("bandwidth over {}", sweep.x_name));
  chart.subtitle = fmt::format(
      "bandwidth in % of the {}, {}, {}, {}, {} L2", roof_name, sweep.constant, first.dtype,
      first.device, cache_text(first));
  if (family.size() > kFew) {
    std::vector<std::string> names;
    for (ChartLine& line : family) {
      names.push_back(short_name(line.label.front()));
      line.label.clear();
    }
    chart.subtitle += fmt::format("; grey: {}", fmt::join(names, ", "));
  }
  chart.subtitle += words_for_mark(disturbed, "; ", "");
  for (const Result* r : disturbed)
    chart.disturbed.emplace_back(static_cast<double>(r->*sweep.x), *percent_of_roof(*r));
  chart.x_name = sweep.x_name;
  chart.mark = l2_mark(of_sweep, sweep, l2_mib);
  chart.lines = std::move(family);
  ChartLine roof{.label = {roof_name}, .points = {}, .colour = text_colour, .width = 1.4};
  for (const std::int64_t x : xs) roof.points.emplace_back(static_cast<double>(x), 100);
  roof.dash = "(6,4)";
  roof.marked = false;
  chart.lines.push_back(roof);
  chart.lines.insert(chart.lines.end(), coloured.begin(), coloured.end());
  chart.y.low = 10 * std::floor(lowest / 10);
  chart.y.high = std::max(100.0, highest);
  chart.y.high += 0.06 * (chart.y.high - chart.y.low);
  return draw(std::move(chart));
}

std::optional<Chart> error_chart(const std::vector<Result>& results, const Sweep& sweep) {
  const std::vector<Result> of_sweep = of_regime(results, sweep.regime);
  const std::vector<Result> on_gpu = to_be_timed(results, sweep);
  const std::vector<Result> on_cpu = only(of_sweep, [](const Result& r) { return !r.cache; });
  const Band band = band_of(on_gpu, sweep);
  if (band.high.empty() || on_cpu.empty()) return std::nullopt;
  const std::string name = on_cpu.front().implementation;
  const std::set<std::int64_t> xs = xs_of(of_sweep, sweep);
  const Curve error = positive(curve_of(on_cpu, sweep, &Result::max_error, name));
  if (error.empty()) return std::nullopt;

  LineChart chart;
  chart.lines = {
      {.label = {"its bound"},
       .points = points_of(positive(curve_of(on_cpu, sweep, &Result::error_bound, name)), xs),
       .colour = accent<1>,
       .width = 1.4,
       .dash = "(5,4)",
       .marked = false},
      {.label = {name}, .points = points_of(error, xs), .colour = accent<0>, .width = 2.4}};
  chart.band = band;
  chart.band->label = {fmt::format("{} on the GPU", implementations_of(on_gpu).size())};
  const auto& [longest, worst] = band.high.back();
  const auto there = error.find(static_cast<std::int64_t>(longest));
  chart.title = there == error.end()
                    ? fmt::format("error over {}", sweep.x_name)
                    : fmt::format(
                          "At {} {}, {} is {:.0f} times as far off as the GPU's kernels",
                          binary_count(there->first), sweep.unit, name, there->second / worst);
  chart.subtitle = fmt::format(
      "largest relative error of an element of y against fp64, {}, {}; dashed: what rounding can "
      "explain",
      of_sweep.front().dtype, on_gpu.front().device);
  chart.x_name = sweep.x_name;
  chart.y = axis_around({chart.lines[0].points, chart.lines[1].points, band.low, band.high});
  return draw(std::move(chart));
}

}  // namespace rmsnorm::plots
