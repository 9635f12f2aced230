#include "plots/line_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plots/format.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kRoomLeft = 1.25;   ///< the x axis begins this factor before the first point
constexpr double kRoomRight = 1.12;  ///< and ends this factor after the last
constexpr double kBottom = 46;
constexpr double kPlot = 280;  ///< the plot's height
constexpr double kLeft = 46;

bool is_no_gap(const std::pair<double, double>& point) {
  return std::isfinite(point.second);
}

/// The lowest and the highest x of all points.
Extent extent_of(const std::vector<ChartLine>& lines) {
  Extent extent;
  for (const ChartLine& line : lines)
    for (const auto& [x, y] : line.points) extent.hold(x);
  return extent;
}

/// 16, 64, 256, ...: every second power of two from the first one that is shown, or every fourth of
/// many.
std::string draw_x_axis(
    const LineChart& chart, const Plane& plane, const Theme& theme, const Extent& extent) {
  const double bottom = plane.frame().bottom;
  std::string text;
  std::vector<std::pair<double, std::string>> ticks;
  const double step = extent.high / extent.low > (1 << 16) ? 16 : 4;
  for (double tick = std::exp2(std::ceil(std::log2(extent.low))); tick <= extent.high;
       tick *= step) {
    ticks.emplace_back(tick, binary_count(static_cast<std::int64_t>(tick)));
    text += draw(Line{{plane.x(tick), bottom - 4}, {plane.x(tick), bottom}, theme.grid});
  }
  return text + draw_numbers(plane, ticks, chart.x_name, theme);
}

std::string draw_mark(const VerticalMark& mark, const Plane& plane, const Theme& theme) {
  const double x = plane.x(mark.x);
  const Frame& frame = plane.frame();
  return draw(Line{{x, frame.bottom}, {x, frame.top}, theme.muted, 1, "(3,3)"}) +
         draw(Text{
             .text = mark.text,
             .at = {x, frame.top + 9},
             .colour = theme.muted,
             .size = 11,
             .align = Align::center});
}

std::vector<EndLabel> end_labels(
    const LineChart& chart, const Plane& plane, const Theme& theme, double last_x) {
  std::vector<EndLabel> labels;
  for (const ChartLine& line : chart.lines) {
    if (line.label.empty()) continue;
    const auto [x, y] = *std::find_if(line.points.rbegin(), line.points.rend(), is_no_gap);
    EndLabel label{{plane.frame().right, plane.y(y)}, line.label, for_text(line.colour, theme)};
    if (x < last_x) {
      label.lines.back() += fmt::format(" (to {})", binary_count(static_cast<std::int64_t>(x)));
      label.end.x = plane.x(x);
    }
    labels.push_back(label);
  }
  if (chart.band) {
    const auto& [x, low] = chart.band->low.back();
    const double y = (plane.y(low) + plane.y(chart.band->high.back().second)) / 2;
    labels.push_back({{plane.frame().right, y}, chart.band->label, theme.muted});
  }
  return labels;
}

std::string commands(const LineChart& chart, const Theme& theme) {
  const Extent extent = extent_of(chart.lines);
  const double last_x = extent.high;
  const Axis x_axis{extent.low / kRoomLeft, last_x * kRoomRight, 2};
  Frame frame{.left = kLeft, .right = kCanvasWidth / 2, .bottom = kBottom, .top = kBottom + kPlot};
  // How wide the labels are does not depend on the frame, only where they stand does.
  frame.right =
      kCanvasWidth - 8 - width_of(end_labels(chart, Plane(frame, x_axis, chart.y), theme, last_x));
  const Plane plane(frame, x_axis, chart.y);

  std::string text = plane.commands(theme) + draw_x_axis(chart, plane, theme, extent) +
                     draw_end_labels(frame, end_labels(chart, plane, theme, last_x));
  if (chart.mark && chart.mark->x > x_axis.low && chart.mark->x < x_axis.high) {
    text += draw_mark(*chart.mark, plane, theme);
  }
  for (const auto& [x, y] : chart.disturbed) {
    const Point above = {plane.x(x), plane.y(y) + 9};
    text += draw(Text{.text = "†", .at = above, .colour = theme.text, .align = Align::center});
  }
  text += "plot NaN";
  if (chart.band) {
    text += fmt::format(
        ", $band with filledcurves closed fillstyle solid 0.45 noborder linecolor rgb '{}'",
        chart.band->colour(theme));
  }
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    text += fmt::format(
        ", $line{} with {} linecolor rgb '{}' linewidth {} dashtype {}{}", i,
        line.marked ? "linespoints" : "lines", line.colour(theme), line.width, line.dash,
        line.marked ? " pointtype 7 pointsize 0.35" : "");
  }
  return text;
}

}  // namespace

Chart draw(LineChart chart) {
  std::erase_if(chart.lines, [](const ChartLine& line) {
    return std::ranges::none_of(line.points, is_no_gap);
  });
  Chart result{chart.title, chart.subtitle, kBottom + kPlot + (chart.mark ? 28.0 : 16.0), {}, {}};
  if (chart.band) {
    Series band{"band", chart.band->low};  // around it: there, and back
    band.points.insert(band.points.end(), chart.band->high.rbegin(), chart.band->high.rend());
    result.data.push_back(band);
  }
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    result.data.push_back({fmt::format("line{}", i), chart.lines[i].points});
  }
  result.commands = [chart = std::move(chart)](const Theme& theme) {
    return commands(chart, theme);
  };
  return result;
}

}  // namespace rmsnorm::plots
