#pragma once
/// \file
/// Where things stand on the canvas, as wide as W screens, from X on, and H points high. gnuplot
/// draws the data and the grid; every text is placed here, in points from the lower left corner of
/// the canvas, so that no two texts meet.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "plots/chart.hpp"

namespace rmsnorm::plots {

constexpr double kMargin = 12;  ///< beside and above the title
constexpr double kLineHeight = 15;
constexpr double kTextGap = 4;  ///< between a leader, or a roof, and its text

/// The sides of the plot on the canvas, in points.
struct Frame {
  double left;
  double right;
  double bottom;
  double top;
};

/// What an axis shows: the numbers at its ends, and whether it is logarithmic.
struct Axis {
  double low;
  double high;
  double log_base = 0;  ///< 0 = linear
};

/// The lowest and the highest of some numbers above 0.
struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;

  void hold(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Maps numbers to the canvas, the way gnuplot does after `commands`.
class Plane {
 public:
  Plane(const Frame& frame, const Axis& x, const Axis& y) : frame_(frame), x_(x), y_(y) {}

  double x(double value) const;
  double y(double value) const;
  const Frame& frame() const { return frame_; }

  /// The commands that make gnuplot use this plane, with grid lines and numbers along y.
  std::string commands(const Theme& theme) const;

 private:
  Frame frame_;
  Axis x_;
  Axis y_;
};

/// A point of the canvas.
struct Point {
  double x;
  double y;
};

enum class Align { left, center, right };

/// One line of text; it stands at the end that `align` names and the middle of the letters' height.
struct Text {
  std::string text;
  Point at;
  std::string colour;
  double size = 12;
  bool bold = false;
  Align align = Align::left;
};

/// The gnuplot command for a text. Whatever the text holds, it is printed as it stands.
std::string draw(const Text& text);

/// The same for lines of text, each `height` below the one before. `first` has no text yet.
std::string draw_lines(const std::vector<std::string>& lines, Text first, double height);

/// A straight line between two points of the canvas.
struct Line {
  Point from;
  Point to;
  std::string colour;
  double width = 1;
  std::string dash = "solid";  ///< a gnuplot dashtype
  bool behind = false;         ///< the data
};

/// The gnuplot command for a line.
std::string draw(const Line& line);

/// The numbers along x, each at its place, and below them what they count.
std::string draw_numbers(
    const Plane& plane, const std::vector<std::pair<double, std::string>>& numbers,
    const std::string& name, const Theme& theme);

/// About as wide as the text is in DejaVu Sans, in points, on the safe side.
double width_of(const std::string& text, double size);

/// The words in lines that are no wider than `width` points.
std::vector<std::string> wrapped(const std::string& text, double size, double width);

/// The height of a chart's title and of the smaller lines below it, on top of the chart.
double height_of_title(const Chart& chart);
std::string draw_title(const Chart& chart, const Theme& theme);

/// A label right of the plot, with a thin line to it from the end of what it names.
struct EndLabel {
  Point end;
  std::vector<std::string> lines;
  std::string colour;
};

/// The labels, pushed apart where they would meet.
std::string draw_end_labels(const Frame& frame, const std::vector<EndLabel>& labels);

/// The width that the labels need right of the plot.
double width_of(const std::vector<EndLabel>& labels);

/// The middles of things of the given heights, none of which overlap or leave [low, high], near to
/// where they are wanted. If there is no room for all, the overlap is shared evenly.
std::vector<double> spread_apart(
    const std::vector<double>& wanted, std::vector<double> heights, double low, double high);

}  // namespace rmsnorm::plots
