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

/// The width of every chart, in points: narrow enough to be read on a phone.
inline constexpr double kCanvasWidth = 480;

/// The colours of a chart, as "#rrggbb". What is compared has one of three accents, what stands
/// around it is grey, and nobody has to tell red from green.
struct Theme {
  std::string background;  ///< of the page: charts are transparent
  std::string text;        ///< and the measured copy
  std::string muted;       ///< text of less weight, and the data sheet's roof
  std::string grid;
  std::string family;                  ///< all that is not in colour
  std::array<std::string, 3> accents;  ///< this, what it is compared with, and a third
};

// A test computes what a reader needs: a contrast of 4.5 of every text to the background, and
// colours that differ by more than 10 also for who sees no green or no red.
inline const Theme kLight = {
    .background = "#ffffff",
    .text = "#1f2933",
    .muted = "#5b6775",
    .grid = "#dfe3e8",
    .family = "#8b95a1",
    .accents = {"#0b62b0", "#b35900", "#7a1060"},
};

inline const Theme kDark = {
    .background = "#0d1117",
    .text = "#e3e8ee",
    .muted = "#9aa7b5",
    .grid = "#353c45",
    .family = "#66717d",
    .accents = {"#4fa3f0", "#f0a04b", "#ff9ed8"},
};

/// Something's colour in a theme.
using Colour = std::function<std::string(const Theme&)>;

inline std::string text_colour(const Theme& theme) {
  return theme.text;
}
inline std::string muted_colour(const Theme& theme) {
  return theme.muted;
}
inline std::string family_colour(const Theme& theme) {
  return theme.family;
}
template <std::size_t i>
std::string accent(const Theme& theme) {
  return theme.accents[i];
}

/// A colour for a text: grey bars and lines are too pale for one.
inline std::string for_text(const Colour& colour, const Theme& theme) {
  return colour(theme) == theme.family ? theme.muted : colour(theme);
}

/// Points that the script plots as $name. A point whose y is NaN breaks a line.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// What is drawn: the data, and the gnuplot commands for a theme, without terminal and output. They
/// count points from the lower left corner of the canvas.
struct Chart {
  std::string title;     ///< what the chart shows, as a finding
  std::string subtitle;  ///< what was measured, where, and in which unit
  double height;         ///< in points, without the title
  std::vector<Series> data;
  std::function<std::string(const Theme&)> commands;
};

/// Draws the chart as STEM.svg and STEM-dark.svg, and makes the folder if there is none. Neither is
/// replaced before both are known to be whole.
/// \throws std::runtime_error with one sentence, which quotes what gnuplot complained about.
void render(const Chart& chart, const std::filesystem::path& stem);

/// Draws the chart as a PNG of 1200 x 630 pixels, as a link is shown elsewhere, with lines of text
/// left of it. \throws std::runtime_error likewise
void render_card(
    const Chart& chart, const std::vector<std::string>& words, const std::filesystem::path& png);

}  // namespace rmsnorm::plots
