#pragma once
/// \file
/// A chart of bars in groups, under roofs.

#include <optional>
#include <string>
#include <vector>

#include "plots/chart.hpp"

namespace rmsnorm::plots {

/// What some bars have in common.
struct BarKind {
  Colour colour;
  std::string name = {};  ///< right of the chart; empty: nothing stands there
};

/// A bar, or a word where there is none.
struct Bar {
  std::size_t kind = 0;  ///< of BarChart::kinds
  std::optional<double> value = {};
  std::vector<std::string> text = {};  ///< lines, turned where they are wider than the bar
  double spread_pct = 0;               ///< half the height of the error bar, in % of the value
};

/// Bars side by side, as many in every group.
struct BarGroup {
  std::vector<std::string> label = {};  ///< its lines of text, below the group
  std::vector<Bar> bars = {};
};

/// A limit, drawn across the groups, and named at its end.
struct Roof {
  std::vector<std::optional<double>> values;  ///< one for each group
  std::vector<std::string> label;             ///< its lines of text
  Colour colour;
  std::string dash;  ///< a gnuplot dashtype
};

/// What a chart of bars shows.
struct BarChart {
  std::string title = {};
  std::string subtitle = {};
  std::vector<BarKind> kinds = {};
  std::vector<BarGroup> groups = {};
  std::vector<Roof> roofs = {};
};

/// The chart. Labels that are wider than their group are turned.
Chart draw(BarChart chart);

}  // namespace rmsnorm::plots
