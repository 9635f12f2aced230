#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "plots/charts.hpp"
#include "plots/format.hpp"
#include "plots/layout.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

constexpr Frame kFrame{.left = 46, .right = kCanvasWidth - 16, .bottom = 46, .top = 326};
constexpr double kAbove = 34;  ///< for the regimes' names
constexpr Axis kY{0, 112};     // %

const char* const kRegimes[] = {"decode", "prefill", "heads", "wide"};
const Colour kColours[] = {family_colour, accent<0>, accent<1>, accent<2>};
const char* const kTypes[] = {"fp32", "bf16"};
// Of each regime, for who sees no colours: as text, and gnuplot's numbers, filled and hollow.
const char* const kMarks[] = {"●", "■", "▲", "◆"};
constexpr int kPointTypes[][2] = {{7, 6}, {5, 4}, {9, 8}, {13, 12}};

/// A chart of dots: what the kernels reach over something, and the roof that it sets.
struct Dots {
  Axis x;
  double first_tick;                         ///< along x; each is four times the one before
  const char* x_text;                        ///< what x counts
  std::function<double(const Limit&)> x_of;  ///< a dot's place
  bool (*is_named)(const Limit&);            ///< whether the kernel's name stands beside the dot
  Align name;                                ///< the end of the name that is at the dot
  std::string curve;                         ///< % over x: gnuplot's words
  std::string curve_text;                    ///< what the curve is
  Point curve_text_at;                       ///< x and %: of the end that `name` says
};

double kib(const Limit& limit) {
  return limit.in_flight / 1024;
}

/// Beside a dot: a kernel that is clearly below the copy, with many bytes in flight.
bool is_short(const Limit& limit) {
  return limit.share < 90 && kib(limit) >= 16;
}

/// Beside a dot: a kernel near the other roof, or clearly below the copy on the way there.
bool is_busy(const Limit& limit) {
  const bool is_on_the_way = limit.share >= 50 && limit.share < 90 && limit.issued >= 20;
  return (limit.issued >= 60 || is_on_the_way) && !is_variant(limit.loads->implementation);
}

/// The names, the numbers along x, and the regimes in their colours.
std::string draw_texts(
    const std::vector<Limit>& limits, const Dots& plot, const Plane& plane, const Theme& theme) {
  std::string text;
  constexpr double kSize = 11;
  const double gap = plot.name == Align::right ? -8 : 8;
  std::vector<Point> taken;  // by dots, and by the letters of names
  for (const Limit& limit : limits)
    taken.push_back({plane.x(plot.x_of(limit)), plane.y(limit.share)});
  for (const Limit& limit : limits) {
    const std::string mark = mark_of(*limit.result);
    if (!plot.is_named(limit) && mark.empty()) continue;
    const std::string name =
        (plot.is_named(limit) ? short_name(limit.loads->implementation) : "") + mark;
    const Point dot = {plane.x(plot.x_of(limit)), plane.y(limit.share)};
    // On its usual side of the dot, or on the other one if only that is free.
    const auto is_free = [&](double side) {
      const double end = dot.x + side * (std::abs(gap) + width_of(name, kSize));
      return end < kCanvasWidth && std::ranges::none_of(taken, [&](const Point& at) {
               return std::abs(at.y - dot.y) < 0.8 * kSize && side * at.x > side * dot.x + 2 &&
                      side * at.x < side * end + 5;
             });
    };
    const double usual = std::copysign(1, gap);
    const double side = !is_free(usual) && is_free(-usual) ? -usual : usual;
    for (double x = std::abs(gap); x < std::abs(gap) + width_of(name, kSize); x += 4)
      taken.push_back({dot.x + side * x, dot.y});
    text += draw(Text{
        .text = name,
        .at = {dot.x + side * std::abs(gap), dot.y},
        .colour = theme.text,
        .size = kSize,
        .align = side < 0 ? Align::right : Align::left});
  }
  std::vector<std::pair<double, std::string>> ticks;
  for (double tick = plot.first_tick; tick < plot.x.high; tick *= 4)
    ticks.emplace_back(tick, fmt::format("{:g}", tick));
  text += draw_numbers(plane, ticks, plot.x_text, theme);
  for (std::size_t i = 0; i < std::size(kRegimes); ++i) {
    text += draw(Text{
        .text = fmt::format("{} {}", kMarks[i], kRegimes[i]),
        .at = {kFrame.left + 12 + 76 * static_cast<double>(i), kFrame.top + 18},
        .colour = i == 0 ? theme.muted : kColours[i](theme),
        .bold = true});
  }
  text += draw(Text{
      .text = plot.curve_text,
      .at = {plane.x(plot.curve_text_at.x) + gap, plane.y(plot.curve_text_at.y)},
      .colour = theme.muted,
      .size = 11,
      .align = plot.name});
  text += draw(Text{
      .text = "measured copy",
      .at = {kFrame.left + 6, plane.y(100) + 9},
      .colour = theme.text,
      .size = 11});
  return text;
}

std::string commands(const std::vector<Limit>& limits, const Dots& plot, const Theme& theme) {
  const Plane plane(kFrame, plot.x, kY);
  std::string text = plane.commands(theme) + draw_texts(limits, plot, plane, theme);
  text += draw(
      Line{{kFrame.left, plane.y(100)}, {kFrame.right, plane.y(100)}, theme.text, 1.2, "(6,4)"});
  text += fmt::format(
      "set samples 1000\nroof(x) = {}\nplot roof(x) < 100 ? roof(x) : NaN with lines "
      "linecolor rgb '{}' linewidth 1.6 dashtype (12,5)",
      plot.curve, theme.muted);
  for (std::size_t i = 0; i < std::size(kRegimes); ++i) {
    for (std::size_t k = 0; k < std::size(kTypes); ++k) {
      text += fmt::format(
          ", ${}_{} with points linecolor rgb '{}' pointtype {} pointsize 0.62 linewidth 1.4",
          kRegimes[i], kTypes[k], kColours[i](theme), kPointTypes[i][k]);
    }
  }
  return text;
}

/// Those in the chart's regimes and types.
std::vector<Limit> shown_of(const std::vector<Limit>& limits) {
  const auto is_in = [](const auto& all, const std::string& one) {
    return std::ranges::find(all, one) != std::end(all);
  };
  return only(limits, [&](const Limit& limit) {
    return is_in(kRegimes, limit.loads->regime) && is_in(kTypes, limit.loads->dtype);
  });
}

Chart chart_of(const std::vector<Limit>& shown, const Dots& plot, const std::string& title) {
  Chart chart;
  for (const char* regime : kRegimes) {
    for (const char* dtype : kTypes) {
      // gnuplot takes no empty block, and draws no point that is NaN.
      Series dots{fmt::format("{}_{}", regime, dtype), {{plot.first_tick, NAN}}};
      for (const Limit& limit : shown) {
        if (limit.loads->regime != regime || limit.loads->dtype != dtype) continue;
        dots.points.emplace_back(plot.x_of(limit), limit.share);
      }
      chart.data.push_back(dots);
    }
  }
  chart.title = title;
  chart.subtitle = fmt::format(
      "bandwidth in % of the copy's in prefill, for each kernel and regime, {}, cold L2; filled: "
      "fp32, hollow: bf16",
      shown.front().profile->device);
  std::vector<const Result*> results;
  for (const Limit& limit : shown) results.push_back(limit.result);
  chart.subtitle += words_for_mark(results, "; ", "");
  chart.height = kFrame.top + kAbove;
  chart.commands = [shown, plot](const Theme& theme) { return commands(shown, plot, theme); };
  return chart;
}

}  // namespace

std::optional<Chart> bytes_in_flight_chart(const std::vector<Limit>& limits) {
  const std::vector<Limit> shown = shown_of(limits);
  if (shown.empty()) return std::nullopt;
  const Limit& any = shown.front();
  const double ns = soonest(shown).ns;
  const double slope = any.share / kib(any) * any.ns / ns;  // % for a KiB; all copies are alike
  const Dots plot = {
      .x = {0.75, 512, 2},
      .first_tick = 1,
      .x_text = "bytes of x in flight, KiB per SM",
      .x_of = kib,
      .is_named = is_short,
      .name = Align::right,
      .curve = fmt::format("{} * x", slope),
      .curve_text = fmt::format("Little's law, {}", microseconds(ns / 1e3)),
      .curve_text_at = {50 / slope, 50}};
  double least = plot.x.high;
  for (const Limit& limit : shown)
    if (limit.share >= kNearlyAll) least = std::min(least, kib(limit));
  return chart_of(
      shown, plot,
      fmt::format(
          "No kernel reaches {:.0f} % of the copy's speed with less than {:.0f} KiB in flight on "
          "an SM",
          kNearlyAll, std::floor(least)));
}

std::optional<Chart> roofline_chart(const std::vector<Limit>& limits) {
  const std::vector<Limit> shown = shown_of(limits);
  if (shown.empty()) return std::nullopt;
  const double slots = 100 * instructions_in_time(shown.front());
  const Dots plot = {
      .x = {16, 2048, 2},
      .first_tick = 16,
      .x_text = "instructions of warps for a KiB of x and y",
      .x_of = &Limit::instructions,
      .is_named = is_busy,
      .name = Align::left,
      .curve = fmt::format("{} / x", slots),
      .curve_text = "all issue slots",
      .curve_text_at = {slots / 55, 55}};
  double most = 0;
  for (const Limit& limit : shown)
    if (limit.share >= kNearlyAll) most = std::max(most, limit.instructions);
  return chart_of(
      shown, plot,
      fmt::format(
          "No kernel with more than {:.0f} instructions per KiB reaches {:.0f} % of the copy's "
          "speed",
          std::ceil(most), kNearlyAll));
}

}  // namespace rmsnorm::plots
