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
constexpr double kAbove = 34;     ///< for the regimes' names
constexpr Axis kX{0.75, 256, 2};  // KiB
constexpr Axis kY{0, 112};        // %

/// What has a name beside its dot: a kernel that is short of the copy, with many bytes in flight.
constexpr double kShort = 90;
constexpr double kMany = 16;

/// Nearly the copy's speed, in % of it.
constexpr double kNearlyAll = 98;

const char* const kRegimes[] = {"decode", "prefill", "heads", "wide"};
const Colour kColours[] = {family_colour, accent<0>, accent<1>, accent<2>};
const char* const kTypes[] = {"fp32", "bf16"};
constexpr int kPointTypes[] = {7, 6};  // gnuplot's: a disc, a ring

double kib(const Limit& limit) {
  return limit.in_flight / 1024;
}

/// The names, the numbers along x, and the regimes in their colours.
std::string draw_texts(const std::vector<Limit>& limits, const Plane& plane, const Theme& theme) {
  std::string text;
  for (const Limit& limit : limits) {
    if (limit.share >= kShort || kib(limit) < kMany) continue;
    text += draw(Text{
        .text = short_name(limit.loads->implementation),
        .at = {plane.x(kib(limit)) - 8, plane.y(limit.share)},
        .colour = theme.text,
        .size = 10.5,
        .align = Align::right});
  }
  for (double tick = 1; tick < kX.high; tick *= 4) {
    text += draw(Text{
        .text = fmt::format("{:g}", tick),
        .at = {plane.x(tick), kFrame.bottom - 12},
        .colour = theme.muted,
        .size = 11,
        .align = Align::center});
  }
  text += draw(Text{
      .text = "bytes of x in flight, KiB an SM",
      .at = {(kFrame.left + kFrame.right) / 2, kFrame.bottom - 32},
      .colour = theme.text,
      .align = Align::center});
  for (std::size_t i = 0; i < std::size(kRegimes); ++i) {
    text += draw(Text{
        .text = fmt::format("● {}", kRegimes[i]),
        .at = {kFrame.left + 12 + 76 * static_cast<double>(i), kFrame.top + 18},
        .colour = i == 0 ? theme.muted : kColours[i](theme),
        .bold = true});
  }
  return text;
}

std::string commands(const std::vector<Limit>& limits, const Theme& theme) {
  const Plane plane(kFrame, kX, kY);
  const Limit& any = limits.front();
  const double ns = soonest(limits).ns;
  const double slope = any.share / kib(any) * any.ns / ns;  // % for a KiB; all copies are alike
  std::string text = plane.commands(theme) + draw_texts(limits, plane, theme);
  text += draw(Text{
      .text = fmt::format("Little's law, {}", microseconds(ns / 1e3)),
      .at = {plane.x(50 / slope) - 8, plane.y(50)},
      .colour = theme.muted,
      .size = 11,
      .align = Align::right});
  text += draw(Text{
      .text = "measured copy",
      .at = {kFrame.left + 6, plane.y(100) + 9},
      .colour = theme.text,
      .size = 11});
  text += draw(
      Line{{kFrame.left, plane.y(100)}, {kFrame.right, plane.y(100)}, theme.text, 1.2, "(6,4)"});
  text += fmt::format(
      "set samples 1000\nplot x < {} ? {} * x : NaN with lines linecolor rgb '{}' linewidth 1.6 "
      "dashtype (12,5)",
      100 / slope, slope, theme.muted);
  for (std::size_t i = 0; i < std::size(kRegimes); ++i) {
    for (std::size_t k = 0; k < std::size(kTypes); ++k) {
      text += fmt::format(
          ", ${}_{} with points linecolor rgb '{}' pointtype {} pointsize 0.62 linewidth 1.4",
          kRegimes[i], kTypes[k], kColours[i](theme), kPointTypes[k]);
    }
  }
  return text;
}

}  // namespace

std::optional<Chart> limits_chart(const std::vector<Limit>& limits) {
  Chart chart;
  std::vector<Limit> shown;
  for (const char* regime : kRegimes) {
    for (const char* dtype : kTypes) {
      // gnuplot takes no empty block, and draws no point that is NaN.
      Series dots{fmt::format("{}_{}", regime, dtype), {{1, NAN}}};
      for (const Limit& limit : limits) {
        if (limit.loads->regime != regime || limit.loads->dtype != dtype) continue;
        dots.points.emplace_back(kib(limit), limit.share);
        shown.push_back(limit);
      }
      chart.data.push_back(dots);
    }
  }
  if (shown.empty()) return std::nullopt;
  double least = kX.high;
  for (const Limit& limit : shown)
    if (limit.share >= kNearlyAll) least = std::min(least, kib(limit));
  chart.title = fmt::format(
      "No kernel reaches {:.0f} % of the copy's speed with less than {:.0f} KiB in flight on an SM",
      kNearlyAll, std::floor(least));
  chart.subtitle = fmt::format(
      "bandwidth in % of the copy's in prefill, for each kernel and regime, {}, cold L2; ● fp32, "
      "○ bf16",
      shown.front().profile->device);
  chart.height = kFrame.top + kAbove;
  chart.commands = [shown](const Theme& theme) { return commands(shown, theme); };
  return chart;
}

}  // namespace rmsnorm::plots
