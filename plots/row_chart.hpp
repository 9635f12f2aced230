#pragma once
/// \file
/// A chart with a row for each thing that is compared: its name, a bar or dots, and the numbers.

#include <optional>
#include <string>
#include <vector>

#include "plots/chart.hpp"

namespace rmsnorm::plots {

/// What some bars or dots have in common.
struct MarkKind {
  Colour colour;
  std::string name = {};  ///< above the plot; empty: nothing stands there
};

/// The end of a bar, or a dot.
struct Mark {
  std::size_t kind;       ///< of RowChart::kinds; the later ones are drawn over the earlier ones
  double value;           ///< along x
  double spread_pct = 0;  ///< half the width of the error bar, in % of the value
};

/// A line of text in its colour.
struct Words {
  std::string text;
  Colour colour = text_colour;
};

/// One row.
struct ChartRow {
  std::vector<Words> label = {};  ///< lines, left of the plot
  std::vector<Mark> marks = {};
  std::vector<Words> text = {};  ///< lines, right of the plot
};

/// A limit, drawn across the rows, and named above them.
struct Roof {
  std::vector<std::optional<double>> values;  ///< one for each row
  std::string label;
  Colour colour;
  std::string dash;  ///< a gnuplot dashtype
};

/// What a chart of rows shows.
struct RowChart {
  std::string title = {};
  std::string subtitle = {};
  std::string x_name = {};
  bool is_logarithmic = false;
  bool has_dots = false;  ///< instead of bars, across the whole width; the row's words stand above
  std::vector<MarkKind> kinds = {};
  std::vector<ChartRow> rows = {};
  std::vector<Roof> roofs = {};
};

/// The chart. Its data are "marksN", for each kind the points (row, value).
Chart draw(RowChart chart);

}  // namespace rmsnorm::plots
