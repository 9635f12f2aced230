#include "plots/row_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "plots/layout.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kTextsApart = 8;  ///< between the plot and the texts beside it
constexpr double kBelow = 40;      ///< for the numbers along x, and what they are
constexpr double kTextSize = 12;
constexpr double kSmallSize = 11;
constexpr double kBetweenRows = 7;
constexpr double kHalfBar = 0.36;  ///< in rows

std::size_t lines_of_a_row(const RowChart& chart) {
  std::size_t lines = 1;
  for (const ChartRow& row : chart.rows)
    lines = std::max({lines, row.label.size(), row.text.size()});
  return lines;
}

double height_of_plot(const RowChart& chart) {
  const double row = kLineHeight * static_cast<double>(lines_of_a_row(chart)) + kBetweenRows;
  return row * static_cast<double>(chart.rows.size());
}

bool has_names(const RowChart& chart) {
  return std::any_of(chart.kinds.begin(), chart.kinds.end(), [](const MarkKind& kind) {
    return !kind.name.empty();
  });
}

/// Above the plot: a line for each roof, and one for the names of the kinds.
double height_above(const RowChart& chart) {
  const std::size_t lines = chart.roofs.size() + (has_names(chart) ? 1 : 0);
  return kLineHeight * static_cast<double>(lines) + 12;
}

Axis axis_of(const RowChart& chart) {
  Extent extent;
  for (const ChartRow& row : chart.rows)
    for (const Mark& mark : row.marks) extent.hold(mark.value * (1 + mark.spread_pct / 100));
  for (const Roof& roof : chart.roofs)
    for (const auto& value : roof.values)
      if (value) extent.hold(*value);
  const auto [low, high] = extent;
  if (high == 0) return {0, 1};
  return chart.is_logarithmic ? Axis{low / 1.15, high * 1.15, 10} : Axis{0, 1.03 * high};
}

double widest_of(const std::vector<Words>& lines) {
  double widest = 0;
  for (const Words& line : lines) widest = std::max(widest, width_of(line.text, kTextSize));
  return widest;
}

Plane plane_of(const RowChart& chart) {
  double label = 0;
  double text = 0;
  for (const ChartRow& row : chart.rows) {
    label = std::max(label, widest_of(row.label));
    text = std::max(text, widest_of(row.text));
  }
  const double rows = static_cast<double>(chart.rows.size());
  const Frame frame{
      .left = kMargin + label + kTextsApart,
      .right = kCanvasWidth - kMargin - text - kTextsApart,
      .bottom = kBelow,
      .top = kBelow + height_of_plot(chart)};
  return {frame, axis_of(chart), {rows - 0.5, -0.5}};
}

/// Round numbers along x, at most five of them: 0, 50, 100 or, on a logarithmic axis, 1, 2, 5, 10.
std::vector<double> ticks_of(const Axis& axis) {
  std::vector<double> ticks;
  if (axis.log_base > 0) {
    for (double power = std::pow(10, std::floor(std::log10(axis.low))); power < axis.high;
         power *= 10) {
      for (const double tick : {power, 2 * power, 5 * power})
        if (tick >= axis.low && tick <= axis.high) ticks.push_back(tick);
    }
    return ticks;
  }
  const double power = std::pow(10, std::floor(std::log10(axis.high / 5)));
  double step = power;
  for (const double factor : {2.0, 5.0, 10.0})
    if (axis.high / step > 5) step = factor * power;
  for (double tick = 0; tick <= axis.high; tick += step) ticks.push_back(tick);
  return ticks;
}

std::string draw_x_axis(const RowChart& chart, const Plane& plane, const Theme& theme) {
  const Frame& frame = plane.frame();
  std::string text;
  for (const double tick : ticks_of(axis_of(chart))) {
    const double x = plane.x(tick);
    text += draw(Line{{x, frame.bottom}, {x, frame.top}, theme.grid, 0.8, "solid", true}) +
            draw(Text{
                .text = fmt::format("{:g}", tick),
                .at = {x, frame.bottom - 11},
                .colour = theme.muted,
                .size = kSmallSize,
                .align = Align::center});
  }
  return text + draw(Text{
                    .text = chart.x_name,
                    .at = {(frame.left + frame.right) / 2, frame.bottom - 28},
                    .colour = theme.muted,
                    .size = kSmallSize,
                    .align = Align::center});
}

/// Lines that end at x, around the row's middle.
std::string draw_words(const std::vector<Words>& lines, double x, double y, const Theme& theme) {
  std::string commands;
  y += kLineHeight * static_cast<double>(lines.size() - 1) / 2;
  for (const Words& line : lines) {
    commands += draw(Text{
        .text = line.text,
        .at = {x, y},
        .colour = line.colour(theme),
        .size = kTextSize,
        .align = Align::right});
    y -= kLineHeight;
  }
  return commands;
}

std::string draw_row(const ChartRow& row, double index, const Plane& plane, const Theme& theme) {
  const double y = plane.y(index);
  std::string commands = draw_words(row.label, plane.frame().left - kTextsApart, y, theme) +
                         draw_words(row.text, kCanvasWidth - kMargin, y, theme);
  for (const Mark& mark : row.marks) {
    if (mark.spread_pct == 0) continue;
    const double spread = mark.value * mark.spread_pct / 100;
    const double low = plane.x(mark.value - spread);
    const double high = plane.x(mark.value + spread);
    commands += draw(Line{{low, y}, {high, y}, theme.text});
    for (const double x : {low, high}) commands += draw(Line{{x, y - 3}, {x, y + 3}, theme.text});
  }
  return commands;
}

/// In one piece over rows that have the same.
std::string draw_roof(const Roof& roof, double label_y, const Plane& plane, const Theme& theme) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < roof.values.size(); begin = end) {
    while (end < roof.values.size() && roof.values[end] == roof.values[begin]) ++end;
    if (!roof.values[begin]) continue;
    const double x = plane.x(*roof.values[begin]);
    const double first = plane.y(static_cast<double>(begin) - 0.5);
    text += draw(Line{
        {x, plane.y(static_cast<double>(end) - 0.5)},
        {x, begin == 0 ? label_y - kLineHeight / 2 : first},
        roof.colour(theme),
        1.4,
        roof.dash});
    if (begin > 0) continue;
    const double wide = width_of(roof.label, kSmallSize);
    text += draw(Text{
        .text = roof.label,
        .at = {std::max(x - kTextGap, kMargin + wide), label_y},
        .colour = roof.colour(theme),
        .size = kSmallSize,
        .align = Align::right});
  }
  return text;
}

/// The names of the kinds, side by side, in their colours.
std::string draw_names(const RowChart& chart, double y, const Theme& theme) {
  std::string text;
  double x = kMargin;
  for (auto kind = chart.kinds.rbegin(); kind != chart.kinds.rend(); ++kind) {
    if (kind->name.empty()) continue;
    const std::string name = "● " + kind->name;
    text += draw(Text{
        .text = name,
        .at = {x, y},
        .colour = for_text(kind->colour, theme),
        .size = kTextSize,
        .bold = true});
    x += 1.08 * width_of(name, kTextSize) + 12;
  }
  return text;
}

std::string commands(const RowChart& chart, const std::vector<Series>& data, const Theme& theme) {
  const Plane plane = plane_of(chart);
  std::string text = plane.commands(theme) + "unset border\nunset ytics\nunset grid\n" +
                     "set style fill solid noborder\n" + draw_x_axis(chart, plane, theme);
  for (std::size_t i = 0; i < chart.rows.size(); ++i)
    text += draw_row(chart.rows[i], static_cast<double>(i), plane, theme);
  double y = plane.frame().top + kLineHeight / 2 + 3;
  for (const Roof& roof : chart.roofs) {
    text += draw_roof(roof, y, plane, theme);
    y += kLineHeight;
  }
  text += draw_names(chart, y + 3, theme) + "plot NaN";
  for (std::size_t kind = 0; kind < chart.kinds.size(); ++kind) {
    if (data[kind].points.empty()) continue;
    const std::string how =
        chart.has_dots ? "using 2:1 with points pointtype 7 pointsize 0.75"
                       : fmt::format("using 2:1:(0):2:($1-{0}):($1+{0}) with boxxyerror", kHalfBar);
    text += fmt::format(
        ", ${} {} linecolor rgb '{}'", data[kind].name, how, chart.kinds[kind].colour(theme));
  }
  return text;
}

}  // namespace

Chart draw(RowChart chart) {
  // The lowest roof has the lowest name, left of it: no other roof runs through that.
  std::sort(chart.roofs.begin(), chart.roofs.end(), [](const Roof& a, const Roof& b) {
    return a.values.front() < b.values.front();
  });
  Chart drawn;
  for (std::size_t kind = 0; kind < chart.kinds.size(); ++kind)
    drawn.data.push_back({fmt::format("marks{}", kind), {}});
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    for (const Mark& mark : chart.rows[row].marks)
      drawn.data[mark.kind].points.emplace_back(static_cast<double>(row), mark.value);
  }
  drawn.title = chart.title;
  drawn.subtitle = chart.subtitle;
  drawn.height = kBelow + height_of_plot(chart) + height_above(chart);
  drawn.commands = [chart = std::move(chart), data = drawn.data](const Theme& theme) {
    return commands(chart, data, theme);
  };
  return drawn;
}

}  // namespace rmsnorm::plots
