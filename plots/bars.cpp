#include "plots/bars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plots/layout.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kLeft = 66;
constexpr double kRight = 12;      ///< free right of the labels of roofs
constexpr double kOfGroup = 0.86;  ///< of a group's width; the rest is the gap to the next one
constexpr double kTextSize = 10;
constexpr double kLineHeight = 14;
constexpr double kMargin = 5;  ///< between the end of a bar and its text
constexpr int kSlope = 40;     ///< of labels that are turned, in degrees

double top_of(const Bar& bar) {
  return bar.value.value_or(0) * (1 + bar.spread_pct / 100);
}

double highest(const BarChart& chart) {
  double highest = 0;
  for (const BarGroup& group : chart.groups) {
    for (const Bar& bar : group.bars) highest = std::max(highest, top_of(bar));
  }
  for (const Roof& roof : chart.roofs) {
    for (const auto& value : roof.values) highest = std::max(highest, value.value_or(0));
  }
  return highest > 0 ? highest : 1;
}

/// A bar's width, in groups.
double bar_width(const BarChart& chart) {
  return kOfGroup / static_cast<double>(std::max<std::size_t>(1, chart.groups.at(0).bars.size()));
}

/// The same without the gap to the next one.
double drawn_width(const BarChart& chart) {
  return 0.92 * bar_width(chart);
}

/// Where the middle of a bar is, in groups from the first one's middle.
double position(const BarChart& chart, std::size_t group, std::size_t bar) {
  return static_cast<double>(group) - kOfGroup / 2 +
         (static_cast<double>(bar) + 0.5) * bar_width(chart);
}

/// The names of the roofs beside their last pieces, and the kinds of bars from the top down.
std::vector<EndLabel> end_labels(const BarChart& chart, const Plane& plane, const Theme& theme) {
  std::vector<EndLabel> labels;
  for (const Roof& roof : chart.roofs) {
    if (roof.values.back())
      labels.push_back({plane.y(*roof.values.back()), roof.label, roof.colour(theme)});
  }
  double y = plane.frame().top - 60;
  for (const BarKind& kind : chart.kinds) {
    if (kind.name.empty()) continue;
    labels.push_back({y, {"■ " + kind.name}, kind.colour(theme), false});
    y -= 18;
  }
  return labels;
}

double widest_of(const std::vector<std::string>& lines) {
  double widest = 0;
  for (const std::string& line : lines) widest = std::max(widest, width_of(line, kTextSize));
  return widest;
}

double widest_label(const BarChart& chart) {
  double widest = 0;
  for (const BarGroup& group : chart.groups) widest = std::max(widest, widest_of(group.label));
  return widest;
}

/// Whether labels are too wide for the groups. Most texts are narrower than width_of says.
bool is_turned(const BarChart& chart, const Frame& frame) {
  constexpr double kSafety = 1.1;
  return widest_label(chart) >
         kSafety * (frame.right - frame.left) / static_cast<double>(chart.groups.size());
}

Plane plane_of(const BarChart& chart, const Theme& theme) {
  Frame frame{.left = kLeft, .right = kCanvasWidth / 2, .bottom = 0, .top = kCanvasHeight - 76};
  const Axis x{-0.5, static_cast<double>(chart.groups.size()) - 0.5};
  const Axis y{0, 1.06 * highest(chart)};
  // How wide the labels are does not depend on the frame, only where they stand does.
  frame.right = kCanvasWidth - kRight - width_of(end_labels(chart, Plane(frame, x, y), theme));
  std::size_t lines = 0;
  for (const BarGroup& group : chart.groups) lines = std::max(lines, group.label.size());
  frame.bottom = is_turned(chart, frame) ? 24 + 0.65 * widest_label(chart)
                                         : 14 + kLineHeight * static_cast<double>(lines);
  return {frame, x, y};
}

/// At the foot of the bar, where no roof is, or above a bar that is too short for it.
std::string draw_text(
    const Bar& bar, double x, double width, const Plane& plane, const Theme& theme) {
  const bool upright = widest_of(bar.text) > width;
  const std::string line = fmt::format("{}", fmt::join(bar.text, "  "));
  const double height =
      upright ? width_of(line, kTextSize) : kLineHeight * static_cast<double>(bar.text.size());
  const double foot = plane.frame().bottom;
  const double top = bar.value ? plane.y(top_of(bar)) : foot;
  const bool inside = height + 2 * kMargin <= top - foot;
  Text text{
      .text = line,
      .at = {x, (inside ? foot : top) + kMargin},
      .colour = inside ? theme.background : theme.text,
      .size = kTextSize,
      .degrees = 90};
  if (upright) return draw(text);
  text.align = Align::center;
  text.degrees = 0;
  text.at.y += height - kLineHeight / 2;
  return draw_lines(bar.text, text, kLineHeight);
}

std::string draw_error(const Bar& bar, double x, const Plane& plane, const Theme& theme) {
  if (!bar.value || bar.spread_pct == 0) return "";
  constexpr double kHalfCap = 4;
  const double low = plane.y(std::max(0.0, 2 * *bar.value - top_of(bar)));
  const double high = plane.y(top_of(bar));
  std::string text = draw(Line{{x, low}, {x, high}, theme.text});
  for (const double y : {low, high}) {
    text += draw(Line{{x - kHalfCap, y}, {x + kHalfCap, y}, theme.text});
  }
  return text;
}

std::string draw_label(const BarGroup& group, double x, const Plane& plane, const Theme& theme) {
  const double bottom = plane.frame().bottom;
  const Text first{
      .text = "",
      .at = {x, bottom - 12},
      .colour = theme.text,
      .size = kTextSize,
      .align = Align::center};
  return draw_lines(group.label, first, kLineHeight);
}

std::string draw_turned_label(
    const BarGroup& group, double x, const Plane& plane, const Theme& theme) {
  return draw(Text{
      .text = fmt::format("{}", fmt::join(group.label, " ")),
      .at = {x + 6, plane.frame().bottom - 10},
      .colour = theme.text,
      .size = kTextSize,
      .align = Align::right,
      .degrees = kSlope});
}

/// In one piece over groups that have the same.
std::string draw_roof(const Roof& roof, const Plane& plane, const Theme& theme) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < roof.values.size(); begin = end) {
    while (end < roof.values.size() && roof.values[end] == roof.values[begin]) ++end;
    if (!roof.values[begin]) continue;
    const double y = plane.y(*roof.values[begin]);
    text += draw(Line{
        {plane.x(static_cast<double>(begin) - 0.5), y},
        {plane.x(static_cast<double>(end) - 0.5), y},
        roof.colour(theme),
        1.6,
        roof.dash});
  }
  return text;
}

std::string draw_group(
    const BarChart& chart, std::size_t index, const Plane& plane, const Theme& theme) {
  const BarGroup& group = chart.groups[index];
  const double middle = plane.x(static_cast<double>(index));
  std::string text = is_turned(chart, plane.frame())
                         ? draw_turned_label(group, middle, plane, theme)
                         : draw_label(group, middle, plane, theme);
  const double width = drawn_width(chart) * (plane.x(1) - plane.x(0));
  for (std::size_t i = 0; i < group.bars.size(); ++i) {
    const double x = plane.x(position(chart, index, i));
    text += draw_error(group.bars[i], x, plane, theme) +
            draw_text(group.bars[i], x, width, plane, theme);
  }
  return text;
}

std::string commands(const BarChart& chart, const std::vector<Series>& data, const Theme& theme) {
  const Plane plane = plane_of(chart, theme);
  std::string text = plane.commands(theme) + draw_title(theme, chart.title, chart.subtitle);
  text += fmt::format("set style fill solid noborder\nset boxwidth {:.6f}\n", drawn_width(chart));
  for (std::size_t i = 0; i < chart.groups.size(); ++i) text += draw_group(chart, i, plane, theme);
  for (const Roof& roof : chart.roofs) text += draw_roof(roof, plane, theme);
  text += draw_end_labels(plane.frame(), end_labels(chart, plane, theme)) + "plot NaN";
  for (std::size_t kind = 0; kind < chart.kinds.size(); ++kind) {
    if (data[kind].points.empty()) continue;
    text += fmt::format(
        ", ${} with boxes linecolor rgb '{}'", data[kind].name, chart.kinds[kind].colour(theme));
  }
  return text;
}

}  // namespace

Chart draw(BarChart chart) {
  Chart drawn;
  for (std::size_t kind = 0; kind < chart.kinds.size(); ++kind)
    drawn.data.push_back({fmt::format("bars{}", kind), {}});
  for (std::size_t group = 0; group < chart.groups.size(); ++group) {
    for (std::size_t i = 0; i < chart.groups[group].bars.size(); ++i) {
      const Bar& bar = chart.groups[group].bars[i];
      if (bar.value)
        drawn.data[bar.kind].points.emplace_back(position(chart, group, i), *bar.value);
    }
  }
  drawn.commands = [chart = std::move(chart), data = drawn.data](const Theme& theme) {
    return commands(chart, data, theme);
  };
  return drawn;
}

}  // namespace rmsnorm::plots
