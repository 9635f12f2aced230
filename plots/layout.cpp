#include "plots/layout.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <sstream>

namespace rmsnorm::plots {
namespace {

constexpr double kLabelSize = 12;
constexpr double kLeaderLength = 12;

constexpr double kTitleSize = 15;
constexpr double kTitleLine = 20;
constexpr double kSubtitleSize = 12;
constexpr double kSubtitleLine = 16;

double position(const Axis& axis, double value, double from, double to) {
  const auto scale = [&](double v) { return axis.log_base > 0 ? std::log(v) : v; };
  const double share = (scale(value) - scale(axis.low)) / (scale(axis.high) - scale(axis.low));
  return from + share * (to - from);
}

/// Text in single quotes: gnuplot runs what stands in backquotes, but not in there. A backslash
/// keeps gnuplot's "enhanced" mode, which the bold face needs, from taking a letter for mark-up.
std::string quoted(const Text& text) {
  std::string result = text.bold ? "'{/:Bold " : "'{";
  for (const char c : text.text) {
    if (std::string_view("_^@&~{}\\").find(c) != std::string_view::npos) result += '\\';
    if (c == '\'') result += '\'';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "}'";
}

std::string screen(Point at) {
  return fmt::format("screen X+W*{:.6f}, screen {:.3f}/H", at.x / kCanvasWidth, at.y);
}

}  // namespace

double Plane::x(double value) const {
  return position(x_, value, frame_.left, frame_.right);
}
double Plane::y(double value) const {
  return position(y_, value, frame_.bottom, frame_.top);
}

std::string Plane::commands(const Theme& theme) const {
  std::string text = fmt::format(
      "set lmargin at screen X+W*{:.6f}\nset rmargin at screen X+W*{:.6f}\n"
      "set bmargin at screen {:.3f}/H\nset tmargin at screen {:.3f}/H\n"
      "set xrange [{}:{}]\nset yrange [{}:{}]\n",
      frame_.left / kCanvasWidth, frame_.right / kCanvasWidth, frame_.bottom, frame_.top, x_.low,
      x_.high, y_.low, y_.high);
  if (x_.log_base > 0) text += fmt::format("set logscale x {}\n", x_.log_base);
  if (y_.log_base > 0)
    text += fmt::format("set logscale y {}\nset format y '10^{{%T}}'\n", y_.log_base);
  text += fmt::format(
      "set key off\nset border 1 linecolor rgb '{0}' linewidth 1\nset tics nomirror scale 0\n"
      "set xtics format ''\nset ytics textcolor rgb '{1}' font ',11'\nset mytics 1\n"
      "set grid noxtics ytics back linetype 1 linecolor rgb '{0}' linewidth 0.8\n",
      theme.grid, theme.muted);
  return text;
}

std::string draw(const Text& text) {
  const char* align = text.align == Align::left     ? "left"
                      : text.align == Align::center ? "center"
                                                    : "right";
  return fmt::format(
      "set label {} at {} {} rotate by 0 font ',{}' textcolor rgb '{}' front\n", quoted(text),
      screen(text.at), align, text.size, text.colour);
}

std::string draw_lines(const std::vector<std::string>& lines, Text first, double height) {
  std::string commands;
  for (const std::string& line : lines) {
    first.text = line;
    commands += draw(first);
    first.at.y -= height;
  }
  return commands;
}

std::string draw(const Line& line) {
  return fmt::format(
      "set arrow from {} to {} nohead linecolor rgb '{}' linewidth {} dashtype {} {}\n",
      screen(line.from), screen(line.to), line.colour, line.width, line.dash,
      line.behind ? "back" : "front");
}

std::string draw_numbers(
    const Plane& plane, const std::vector<std::pair<double, std::string>>& numbers,
    const std::string& name, const Theme& theme) {
  const Frame& frame = plane.frame();
  std::string text;
  for (const auto& [number, as_text] : numbers) {
    text += draw(Text{
        .text = as_text,
        .at = {plane.x(number), frame.bottom - 12},
        .colour = theme.muted,
        .size = 11,
        .align = Align::center});
  }
  return text + draw(Text{
                    .text = name,
                    .at = {(frame.left + frame.right) / 2, frame.bottom - 32},
                    .colour = theme.text,
                    .align = Align::center});
}

double width_of(const std::string& text, double size) {
  const auto letters = std::ranges::count_if(text, [](unsigned char c) {
    return (c & 0xC0) != 0x80;  // not the second byte of a letter in UTF-8
  });
  return 0.62 * size * static_cast<double>(letters);
}

std::vector<std::string> wrapped(const std::string& text, double size, double width) {
  std::vector<std::string> lines = {""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::string longer = lines.back().empty() ? word : lines.back() + " " + word;
    if (lines.back().empty() || width_of(longer, size) <= width) {
      lines.back() = longer;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

/// The title's lines, and those below it.
std::pair<std::vector<std::string>, std::vector<std::string>> lines_of_title(const Chart& chart) {
  constexpr double kWidth = kCanvasWidth - 2 * kMargin;
  return {wrapped(chart.title, kTitleSize, kWidth), wrapped(chart.subtitle, kSubtitleSize, kWidth)};
}

double height_of_title(const Chart& chart) {
  const auto [title, subtitle] = lines_of_title(chart);
  return kMargin + kTitleLine * static_cast<double>(title.size()) +
         kSubtitleLine * static_cast<double>(subtitle.size());
}

std::string draw_title(const Chart& chart, const Theme& theme) {
  const auto [title, subtitle] = lines_of_title(chart);
  Text text{
      .text = "",
      .at = {kMargin, chart.height + height_of_title(chart) - kMargin - kTitleLine / 2},
      .colour = theme.text,
      .size = kTitleSize,
      .bold = true};
  std::string commands = draw_lines(title, text, kTitleLine);
  text.at.y -= kTitleLine * static_cast<double>(title.size());
  text.colour = theme.muted;
  text.size = kSubtitleSize;
  text.bold = false;
  return commands + draw_lines(subtitle, text, kSubtitleLine);
}

double width_of(const std::vector<EndLabel>& labels) {
  double width = 0;
  for (const EndLabel& label : labels) {
    for (const std::string& line : label.lines) width = std::max(width, width_of(line, kLabelSize));
  }
  return kLeaderLength + kTextGap + width;
}

std::string draw_end_labels(const Frame& frame, const std::vector<EndLabel>& labels) {
  std::vector<double> wanted;
  std::vector<double> heights;
  for (const EndLabel& label : labels) {
    wanted.push_back(label.end.y);
    heights.push_back(kLineHeight * static_cast<double>(label.lines.size()));
  }
  const std::vector<double> middles =
      spread_apart(wanted, heights, frame.bottom - 30, frame.top + 10);

  std::string commands;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const EndLabel& label = labels[i];
    commands += draw(Line{
        {label.end.x + 4, label.end.y},
        {frame.right + kLeaderLength, middles[i]},
        label.colour,
        0.8});
    const Text first{
        .text = "",
        .at = {frame.right + kLeaderLength + kTextGap, middles[i] + (heights[i] - kLineHeight) / 2},
        .colour = label.colour,
        .size = kLabelSize};
    commands += draw_lines(label.lines, first, kLineHeight);
  }
  return commands;
}

std::vector<double> spread_apart(
    const std::vector<double>& wanted, std::vector<double> heights, double low, double high) {
  const double total = std::accumulate(heights.begin(), heights.end(), 0.0);
  if (total > high - low) {
    for (double& height : heights) height *= (high - low) / total;
  }
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return wanted[a] < wanted[b]; });

  // Up as far as they would meet what is below, then down as far as they would leave at the top.
  std::vector<double> middles = wanted;
  double free = low;
  for (const std::size_t i : order) {
    middles[i] = std::max(wanted[i], free + heights[i] / 2);
    free = middles[i] + heights[i] / 2;
  }
  free = high;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    middles[*i] = std::min(middles[*i], free - heights[*i] / 2);
    free = middles[*i] - heights[*i] / 2;
  }
  return middles;
}

}  // namespace rmsnorm::plots
