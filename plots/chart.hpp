#pragma once
/// \file
/// From a gnuplot script to files: each chart in a light and a dark theme.

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace rmsnorm::plots {

/// The canvas of every chart, in points.
inline constexpr double kCanvasWidth = 900;
inline constexpr double kCanvasHeight = 500;

/// How many colours a theme has for lines.
inline constexpr std::size_t kLineColours = 9;

/// The colours of a chart, as "#rrggbb".
struct Theme {
  std::string background;  ///< of the page: charts are transparent
  std::string text;
  std::string muted;  ///< text of less weight
  std::string grid;
  std::string bar;
  std::string variant;                          ///< the bar of a variant
  std::string peak;                             ///< the data sheet's roof
  std::string copy;                             ///< the measured roof
  std::array<std::string, kLineColours> lines;  ///< used in turn
};

/// Something's colour in a theme.
using Colour = std::function<std::string(const Theme&)>;

/// The colour of the i-th of some lines or bars.
inline Colour line_colour(std::size_t i) {
  return [i](const Theme& theme) { return theme.lines[i % kLineColours]; };
}

/// Points that the script plots as $name. A point whose y is NaN breaks a line.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// What is drawn: the data, and the gnuplot commands for a theme, without terminal and output.
struct Chart {
  std::vector<Series> data;
  std::function<std::string(const Theme&)> commands;
};

/// Draws the chart as STEM.svg and STEM-dark.svg, and makes the folder if there is none. Neither is
/// replaced before both are known to be whole.
/// \throws std::runtime_error with one sentence, which quotes what gnuplot complained about.
void render(const Chart& chart, const std::filesystem::path& stem);

}  // namespace rmsnorm::plots
