#include "plots/grouped_bars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plots/layout.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kLeft = 66;
constexpr double kGroupShare = 0.86;  ///< of a group's width; the rest is the gap to the next one
constexpr double kTextSize = 10;
constexpr double kLineHeight = 14;
constexpr double kMargin = 5;  ///< between the end of a bar and its text

double highest(const GroupedBars& bars) {
  double highest = 0;
  for (const BarGroup& group : bars.groups) {
    highest = std::max(highest, group.roof.value_or(0));
    for (const Bar& bar : group.bars) highest = std::max(highest, bar.value.value_or(0));
  }
  return highest > 0 ? highest : 1;
}

/// Where the middle of a bar is, in groups from the first one's middle.
double position(const GroupedBars& bars, std::size_t group, std::size_t kind) {
  const double width = kGroupShare / static_cast<double>(bars.kinds.size());
  return static_cast<double>(group) - kGroupShare / 2 + (static_cast<double>(kind) + 0.5) * width;
}

/// The kinds from the top down, and the roof's name beside its last piece.
std::vector<EndLabel> end_labels(const GroupedBars& bars, const Plane& plane, const Theme& theme) {
  std::vector<EndLabel> labels;
  if (!bars.groups.empty() && bars.groups.back().roof)
    labels.push_back({plane.y(*bars.groups.back().roof), {bars.roof_name}, theme.copy});
  double y = plane.frame().top - 60;
  for (const BarKind& kind : bars.kinds) {
    labels.push_back({y, {"■ " + kind.name}, kind.colour(theme), false});
    y -= 18;
  }
  return labels;
}

Plane plane_of(const GroupedBars& bars, const Theme& theme) {
  std::size_t lines = 0;
  for (const BarGroup& group : bars.groups) lines = std::max(lines, group.label.size());
  Frame frame{
      .left = kLeft,
      .right = kCanvasWidth / 2,
      .bottom = 14 + kLineHeight * static_cast<double>(lines),
      .top = kCanvasHeight - 76};
  const Axis x{-0.5, static_cast<double>(bars.groups.size()) - 0.5};
  const Axis y{0, 1.06 * highest(bars)};
  // How wide the labels are does not depend on the frame, only where they stand does.
  frame.right = kCanvasWidth - 12 - width_of(end_labels(bars, Plane(frame, x, y), theme));
  return {frame, x, y};
}

/// Turned; at the foot of the bar, where no roof is, or above a bar that is too short for it.
std::string draw_text(const Bar& bar, double x, const Plane& plane, const Theme& theme) {
  const double foot = plane.frame().bottom;
  const double top = bar.value ? plane.y(*bar.value) : foot;
  const bool inside = width_of(bar.text, kTextSize) + 2 * kMargin <= top - foot;
  return draw(Text{
      .text = bar.text,
      .x = x,
      .y = (inside ? foot : top) + kMargin,
      .colour = inside ? theme.background : theme.text,
      .size = kTextSize,
      .degrees = 90});
}

std::string draw_group(
    const GroupedBars& bars, std::size_t index, const Plane& plane, const Theme& theme) {
  const BarGroup& group = bars.groups[index];
  const Text label{
      .text = "",
      .x = plane.x(static_cast<double>(index)),
      .y = plane.frame().bottom - 12,
      .colour = theme.text,
      .size = kTextSize,
      .align = Align::center};
  std::string text = draw_lines(group.label, label, kLineHeight);
  for (std::size_t kind = 0; kind < group.bars.size(); ++kind)
    text += draw_text(group.bars[kind], plane.x(position(bars, index, kind)), plane, theme);
  if (group.roof) {
    text += draw(Line{
        .x1 = plane.x(static_cast<double>(index) - 0.5),
        .y1 = plane.y(*group.roof),
        .x2 = plane.x(static_cast<double>(index) + 0.5),
        .y2 = plane.y(*group.roof),
        .colour = theme.copy,
        .width = 1.6,
        .dash = "(6,4)"});
  }
  return text;
}

std::string commands(const GroupedBars& bars, const std::vector<Series>& data, const Theme& theme) {
  const Plane plane = plane_of(bars, theme);
  std::string text = plane.commands(theme) + draw_title(theme, bars.title, bars.subtitle);
  text += fmt::format(
      "set style fill solid noborder\nset boxwidth {:.6f}\n",
      0.92 * kGroupShare / static_cast<double>(bars.kinds.size()));
  for (std::size_t i = 0; i < bars.groups.size(); ++i) text += draw_group(bars, i, plane, theme);
  text += draw_end_labels(plane.frame(), end_labels(bars, plane, theme)) + "plot NaN";
  for (std::size_t kind = 0; kind < bars.kinds.size(); ++kind) {
    if (data[kind].points.empty()) continue;
    text += fmt::format(
        ", ${} with boxes linecolor rgb '{}'", data[kind].name, bars.kinds[kind].colour(theme));
  }
  return text;
}

}  // namespace

Chart draw(GroupedBars bars) {
  Chart chart;
  for (std::size_t kind = 0; kind < bars.kinds.size(); ++kind) {
    Series& series = chart.data.emplace_back(Series{fmt::format("bars{}", kind), {}});
    for (std::size_t group = 0; group < bars.groups.size(); ++group) {
      const Bar& bar = bars.groups[group].bars.at(kind);
      if (bar.value) series.points.emplace_back(position(bars, group, kind), *bar.value);
    }
  }
  chart.commands = [bars = std::move(bars), data = chart.data](const Theme& theme) {
    return commands(bars, data, theme);
  };
  return chart;
}

}  // namespace rmsnorm::plots
