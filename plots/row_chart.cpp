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
constexpr double kHalfBar = 0.36;   ///< in rows
constexpr double kDotsBelow = 0.2;  ///< the middle of a row, in rows; its words are as far above
constexpr double kHalfTick = 0.2;   ///< of a row of dots, in rows

/// Dots have the whole width, under the row's words.
std::size_t lines_of_a_row(const RowChart& chart) {
  if (chart.has_dots) return 2;
  std::size_t lines = 1;
  for (const ChartRow& row : chart.rows)
    lines = std::max({lines, row.label.size(), row.text.size()});
  return lines;
}

double height_of_plot(const RowChart& chart) {
  const double row = kLineHeight * static_cast<double>(lines_of_a_row(chart)) + kBetweenRows;
  return row * static_cast<double>(chart.rows.size());
}

/// Above the plot: a line for the names of the kinds, and one for each roof that bars end below.
double height_above(const RowChart& chart) {
  const bool has_names =
      std::ranges::any_of(chart.kinds, [](const MarkKind& kind) { return !kind.name.empty(); });
  const std::size_t lines = (chart.has_dots ? 0 : chart.roofs.size()) + (has_names ? 1 : 0);
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
  const double rows = static_cast<double>(chart.rows.size());
  Frame frame{
      .left = kMargin,
      .right = kCanvasWidth - kMargin,
      .bottom = kBelow,
      .top = kBelow + height_of_plot(chart)};
  const Axis down{rows - 0.5, -0.5};
  if (chart.has_dots) return {frame, axis_of(chart), down};
  double label = 0;
  double text = 0;
  for (const ChartRow& row : chart.rows) {
    label = std::max(label, widest_of(row.label));
    text = std::max(text, widest_of(row.text));
  }
  frame.left += label + kTextsApart;
  frame.right -= text + kTextsApart;
  return {frame, axis_of(chart), down};
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

/// A vertical line through the dots of a row.
Line across_dots(double row, double value, const Plane& plane, const std::string& colour) {
  const double y = row + kDotsBelow;
  const double x = plane.x(value);
  return {{x, plane.y(y + kHalfTick)}, {x, plane.y(y - kHalfTick)}, colour, 0.8, "solid", true};
}

/// The line along which the dots of a row stand, with the numbers' places on it.
std::string draw_scale(
    double row, const std::vector<double>& ticks, const Plane& plane, const Theme& theme) {
  const double y = plane.y(row + kDotsBelow);
  const auto& [left, right, bottom, top] = plane.frame();
  std::string text = draw(Line{{left, y}, {right, y}, theme.grid, 0.8, "solid", true});
  for (const double tick : ticks) text += draw(across_dots(row, tick, plane, theme.grid));
  return text;
}

std::string draw_x_axis(const RowChart& chart, const Plane& plane, const Theme& theme) {
  const Frame& frame = plane.frame();
  const std::vector<double> ticks = ticks_of(axis_of(chart));
  std::string text;
  for (std::size_t row = 0; chart.has_dots && row < chart.rows.size(); ++row)
    text += draw_scale(static_cast<double>(row), ticks, plane, theme);
  for (const double tick : ticks) {
    const double x = plane.x(tick);
    if (!chart.has_dots)
      text += draw(Line{{x, frame.bottom}, {x, frame.top}, theme.grid, 0.8, "solid", true});
    text += draw(Text{
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

/// Where the words of a row of dots end, the first ones at the right edge.
std::vector<double> ends_of_columns(const RowChart& chart) {
  std::vector<double> widest;
  for (const ChartRow& row : chart.rows) {
    widest.resize(std::max(widest.size(), row.text.size()));
    for (std::size_t column = 0; column < row.text.size(); ++column)
      widest[column] = std::max(widest[column], width_of(row.text[column].text, kTextSize));
  }
  std::vector<double> ends;
  double end = kCanvasWidth - kMargin;
  for (const double width : widest) {
    ends.push_back(end);
    end -= width + kTextsApart;
  }
  return ends;
}

/// A row of dots: its label above them on the left, its numbers on the right, and the roofs.
std::string draw_row_of_dots(
    const RowChart& chart, std::size_t which, const std::vector<double>& ends, const Plane& plane,
    const Theme& theme) {
  const ChartRow& row = chart.rows[which];
  const auto index = static_cast<double>(which);
  std::string commands;
  const auto put = [&](const Words& words, double x, Align align) {
    commands += draw(Text{
        .text = words.text,
        .at = {x, plane.y(index - kDotsBelow)},
        .colour = words.colour(theme),
        .size = kTextSize,
        .align = align});
  };
  double x = kMargin;
  for (const Words& words : row.label) {
    put(words, x, Align::left);
    x += width_of(words.text, kTextSize) + kTextsApart;
  }
  for (std::size_t column = 0; column < row.text.size(); ++column)
    put(row.text[column], ends[column], Align::right);
  for (const Roof& roof : chart.roofs)
    if (roof.values[which])
      commands += draw(across_dots(index, *roof.values[which], plane, roof.colour(theme)));
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

/// The names of the kinds, and of the roofs across dots, side by side, in their colours.
std::string draw_names(const RowChart& chart, double y, const Theme& theme) {
  std::string text;
  double x = kMargin;
  const auto put = [&](const std::string& name, const Colour& colour) {
    text += draw(Text{
        .text = name,
        .at = {x, y},
        .colour = for_text(colour, theme),
        .size = kTextSize,
        .bold = true});
    x += width_of(name, kTextSize) + 8;
  };
  for (auto kind = chart.kinds.rbegin(); kind != chart.kinds.rend(); ++kind)
    if (!kind->name.empty()) put("● " + kind->name, kind->colour);
  for (const Roof& roof : chart.roofs)
    if (chart.has_dots) put("| " + roof.label, roof.colour);
  return text;
}

std::string commands(const RowChart& chart, const std::vector<Series>& data, const Theme& theme) {
  const Plane plane = plane_of(chart);
  std::string text = plane.commands(theme) + "unset border\nunset ytics\nunset grid\n" +
                     "set style fill solid noborder\n" + draw_x_axis(chart, plane, theme);
  const std::vector<double> ends = ends_of_columns(chart);
  for (std::size_t i = 0; i < chart.rows.size(); ++i)
    text += chart.has_dots ? draw_row_of_dots(chart, i, ends, plane, theme)
                           : draw_row(chart.rows[i], static_cast<double>(i), plane, theme);
  double y = plane.frame().top + kLineHeight / 2 + 3;
  for (const Roof& roof : chart.roofs) {
    if (chart.has_dots) continue;
    text += draw_roof(roof, y, plane, theme);
    y += kLineHeight;
  }
  text += draw_names(chart, y + 3, theme) + "plot NaN";
  for (std::size_t kind = 0; kind < chart.kinds.size(); ++kind) {
    if (data[kind].points.empty()) continue;
    const std::string how =
        chart.has_dots
            ? fmt::format("using 2:($1+{}) with points pointtype 7 pointsize 0.75", kDotsBelow)
            : fmt::format("using 2:1:(0):2:($1-{0}):($1+{0}) with boxxyerror", kHalfBar);
    text += fmt::format(
        ", ${} {} linecolor rgb '{}'", data[kind].name, how, chart.kinds[kind].colour(theme));
  }
  return text;
}

}  // namespace

Chart draw(RowChart chart) {
  // The lowest roof has the lowest name, left of it: no other roof runs through that.
  std::ranges::sort(chart.roofs, {}, [](const Roof& roof) { return roof.values.front(); });
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
