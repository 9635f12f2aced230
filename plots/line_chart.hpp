#pragma once
/// \file
/// A chart of lines over a logarithmic x axis, each labelled at its end.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plots/chart.hpp"
#include "plots/layout.hpp"

namespace rmsnorm::plots {

/// One line. A point whose y is NaN is a gap.
struct ChartLine {
  std::vector<std::string> label;  ///< its lines of text, in its colour; none: it has no label
  std::vector<std::pair<double, double>> points;
  Colour colour;
  double width = 2;
  std::string dash = "solid";  ///< a gnuplot dashtype
  bool marked = true;          ///< a dot at each point
};

/// The area between two lines with points at the same x.
struct Band {
  std::vector<std::pair<double, double>> low;
  std::vector<std::pair<double, double>> high;
  Colour colour;
  std::vector<std::string> label;  ///< its lines of text
};

/// A vertical line, with its text above the plot.
struct VerticalMark {
  double x;
  std::string text;
};

/// What a chart of lines shows.
struct LineChart {
  std::string title;
  std::string subtitle;
  std::string x_name;
  Axis y;
  std::optional<Band> band;      ///< behind the lines
  std::vector<ChartLine> lines;  ///< the later ones are drawn over the earlier ones
  std::optional<VerticalMark> mark;
  std::vector<std::pair<double, double>> disturbed = {};  ///< points with a † above
};

/// The chart. Lines without any point are left out. A line that ends before the others do says so
/// in its label.
Chart draw(LineChart chart);

}  // namespace rmsnorm::plots
