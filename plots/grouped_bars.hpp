#pragma once
/// \file
/// A chart of bars in groups: a group for each case, in it a bar for each contender.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plots/chart.hpp"

namespace rmsnorm::plots {

/// What all bars of one name have in common.
struct BarKind {
  std::string name;
  std::function<std::string(const Theme&)> colour;
};

/// A bar, or a word where there is none.
struct Bar {
  std::optional<double> value;
  std::string text;
};

/// The bars of one case; as many as there are kinds, in their order.
struct BarGroup {
  std::vector<std::string> label;  ///< its lines of text, below the group
  std::vector<Bar> bars;
  std::optional<double> roof;  ///< drawn across the group
};

/// What a chart of groups shows.
struct GroupedBars {
  std::string title;
  std::string subtitle;
  std::vector<BarKind> kinds;
  std::vector<BarGroup> groups;
  std::string roof_name;
};

/// The chart; its kinds stand right of the plot, in the order of the bars.
Chart draw(GroupedBars bars);

}  // namespace rmsnorm::plots
