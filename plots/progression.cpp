#include "plots/progression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "plots/format.hpp"
#include "plots/layout.hpp"

namespace rmsnorm::plots {
namespace {

/// A peak further away than this, in multiples of the highest bar, is told and not drawn.
constexpr double kPeakInSight = 2.5;

constexpr double kPercentSize = 13;
constexpr double kTimeSize = 11;
constexpr double kSlugSize = 11;
constexpr double kLine = 17;   ///< height of a line of text in or above a bar
constexpr double kMargin = 6;  ///< between a bar's end or its error bar and the text

/// A kernel's column.
struct Column {
  std::string slug;
  std::string verdict;
  std::optional<double> gbps;
  double low = 0;  ///< the ends of the error bar, GB/s
  double high = 0;
  std::string percent;
  std::string time;
};

Column column_of(const Result& result) {
  Column column{
      .slug = result.lesson,
      .verdict = result.verdict,
      .gbps = result.gbps,
      .percent = "",
      .time = ""};
  if (!result.gbps) return column;
  const double spread = std::clamp(result.spread_pct.value_or(0) / 100, 0.0, 1.0);
  column.low = *result.gbps * (1 - spread);
  column.high = *result.gbps * (1 + spread);
  if (const auto pct = percent_of_copy(result)) column.percent = percent(*pct);
  if (result.median_us) column.time = microseconds(*result.median_us);
  return column;
}

/// The condition's results that a chart compares: those of lessons; of foils, too, where the
/// condition is one lesson's alone.
std::vector<Result> shown(const std::vector<Result>& results, const Condition& condition) {
  const auto of_condition = [&](std::vector<Result> all) {
    std::erase_if(all, [&](const Result& result) { return condition_of(result) != condition; });
    return all;
  };
  std::vector<Result> lessons = of_condition(comparable(results));
  return lessons.size() > 1 ? lessons : of_condition(results);
}

/// The slug in lines that fit the width, broken after "_" and "/". Empty if a part is too wide.
std::vector<std::string> wrapped(const std::string& slug, double width) {
  std::vector<std::string> lines = {""};
  std::string part;
  for (std::size_t i = 0; i < slug.size(); ++i) {
    part += slug[i];
    if (slug[i] != '_' && slug[i] != '/' && i + 1 < slug.size()) continue;
    if (width_of(part, kSlugSize) > width) return {};
    if (width_of(lines.back() + part, kSlugSize) > width) lines.emplace_back();
    lines.back() += part;
    part.clear();
  }
  return lines;
}

class Progression {
 public:
  Progression(const std::vector<Result>& results, const Condition& condition) {
    for (const Result& result : shown(results, condition)) {
      if (!result.gbps && result.verdict == "pass") continue;
      columns_.push_back(column_of(result));
      example_ = result;
      if (result.copy_gbps) copy_ = result.copy_gbps;
      if (result.peak_gbps) peak_ = result.peak_gbps;
    }
    std::sort(columns_.begin(), columns_.end(), [](const Column& a, const Column& b) {
      return a.slug < b.slug;
    });
    for (const Column& column : columns_) highest_ = std::max(highest_, column.high);
    highest_ = std::max(highest_, copy_.value_or(0));
    peak_in_sight_ = peak_ && *peak_ <= kPeakInSight * highest_;
    if (peak_in_sight_) highest_ = std::max(highest_, *peak_);
    if (highest_ == 0) highest_ = 1;
    lay_out();
  }

  std::vector<Series> data() const {
    Series bars{"bars", {}};
    Series foils{"foils", {}};
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      auto& series = is_foil(columns_[i].slug) ? foils : bars;
      if (columns_[i].gbps) series.points.emplace_back(static_cast<double>(i), *columns_[i].gbps);
    }
    std::vector<Series> data;
    for (Series& series : std::vector{bars, foils}) {
      if (!series.points.empty()) data.push_back(std::move(series));
    }
    return data;
  }

  std::string commands(const Theme& theme) const {
    const Plane plane = make_plane();
    std::string text = plane.commands(theme) + draw_title(theme, title(), subtitle());
    text += fmt::format(
        "set style fill solid noborder\nset boxwidth {:.6f}\n", bar_width_ / column_width_);
    for (std::size_t i = 0; i < columns_.size(); ++i) text += draw_column(theme, plane, i);
    text += draw_roofs(theme, plane);
    text += "plot NaN";
    for (const Series& series : data()) {
      text += fmt::format(
          ", ${0} with boxes linecolor rgb '{1}'", series.name,
          series.name == "foils" ? theme.foil : theme.bar);
    }
    return text;
  }

 private:
  void lay_out() {
    frame_ = {.left = 66, .right = kCanvasWidth, .bottom = 0, .top = kCanvasHeight - 76};
    // How wide the labels are does not depend on the frame, only where they stand does.
    frame_.right -= 14 + width_of(roof_labels(Theme(), make_plane()));
    const auto measure = [this] {
      column_width_ = (frame_.right - frame_.left) / static_cast<double>(columns_.size());
    };
    measure();
    double lines = 0;
    double widest = 0;
    for (const Column& column : columns_) {
      const std::vector<std::string> slug = wrapped(column.slug, column_width_ - 4);
      if (slug.empty()) narrow_ = true;
      lines = std::max(lines, static_cast<double>(slug.size()));
      widest = std::max(widest, width_of(column.slug, kSlugSize));
    }
    if (narrow_) {
      // Slugs at 40 degrees, which end below their bars; none may leave the canvas on the left.
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        const double reach = 0.77 * width_of(columns_[i].slug, kSlugSize);
        frame_.left = std::max(frame_.left, reach - (static_cast<double>(i) + 0.5) * column_width_);
      }
      measure();
      frame_.bottom = 30 + 0.65 * widest;
    } else {
      frame_.bottom = 22 + 15 * lines;
    }
    bar_width_ = std::min(0.78 * column_width_, 96.0);
  }

  Plane make_plane() const {
    const double columns = static_cast<double>(columns_.size());
    return {frame_, {-0.5, columns - 0.5}, {0, 1.06 * highest_}};
  }

  std::string title() const {
    return fmt::format(
        "{}, {} × {} {}, {}, {} L2", example_.regime, example_.rows, example_.hidden,
        example_.dtype, example_.device, example_.cache);
  }

  std::string subtitle() const {
    std::string text = "effective bandwidth in GB/s; share of the measured copy; time of a launch";
    if (peak_ && !peak_in_sight_) {
      text += fmt::format(
          "; the data-sheet peak, {}, is above the chart", gigabytes_per_second(*peak_));
    }
    return text;
  }

  std::string draw_column(const Theme& theme, const Plane& plane, std::size_t index) const {
    const Column& column = columns_[index];
    const double x = plane.x(static_cast<double>(index));
    std::string text = draw_slug(theme, x, column.slug);
    if (!column.gbps) {
      text += draw(Text{
          .text = column.verdict,
          .x = x,
          .y = frame_.bottom + (narrow_ ? 8 : 14),
          .colour = theme.muted,
          .align = narrow_ ? Align::left : Align::center,
          .degrees = narrow_ ? 90 : 0});
      return text;
    }
    text += draw_error_bar(theme, plane, column, x);
    text += narrow_ ? draw_numbers_upright(theme, plane, column, x)
                    : draw_numbers(theme, plane, column, x);
    return text;
  }

  std::string draw_slug(const Theme& theme, double x, const std::string& slug) const {
    if (narrow_) {
      return draw(Text{
          .text = slug,
          .x = x + 6,
          .y = frame_.bottom - 12,
          .colour = theme.text,
          .size = kSlugSize,
          .align = Align::right,
          .degrees = 40});
    }
    const Text first{
        .text = "",
        .x = x,
        .y = frame_.bottom - 15,
        .colour = theme.text,
        .size = kSlugSize,
        .align = Align::center};
    return draw_lines(wrapped(slug, column_width_ - 4), first, 15);
  }

  static std::string draw_error_bar(
      const Theme& theme, const Plane& plane, const Column& column, double x) {
    constexpr double kHalfCap = 4;
    const double low = plane.y(column.low);
    const double high = plane.y(column.high);
    std::string text = draw(Line{.x1 = x, .y1 = low, .x2 = x, .y2 = high, .colour = theme.text});
    for (const double y : {low, high}) {
      text += draw(
          Line{.x1 = x - kHalfCap, .y1 = y, .x2 = x + kHalfCap, .y2 = y, .colour = theme.text});
    }
    return text;
  }

  /// Where a text of this height stands: its upper edge, inside the bar and clear of the roofs if
  /// there is room, else above the error bar.
  struct Place {
    double top;
    bool inside;
  };
  Place place(const Plane& plane, const Column& column, double height) const {
    double top = std::min(plane.y(column.low), plane.y(*column.gbps)) - kMargin;
    const double bottom_of_bar = frame_.bottom + 1;
    for (const double roof : roofs_from_above(plane)) {
      if (roof < top + kMargin && roof > top - height - kMargin) top = roof - kMargin;
    }
    if (top - height >= bottom_of_bar) return {top, true};
    double bottom = plane.y(column.high) + kMargin;
    const auto roofs = roofs_from_above(plane);
    for (auto roof = roofs.rbegin(); roof != roofs.rend(); ++roof) {
      if (*roof > bottom - kMargin && *roof < bottom + height + kMargin) bottom = *roof + kMargin;
    }
    return {bottom + height, false};
  }

  std::string draw_numbers(
      const Theme& theme, const Plane& plane, const Column& column, double x) const {
    const Place at = place(plane, column, 2 * kLine);
    const std::string& colour = colour_of_numbers(theme, column, at);
    return draw(Text{
               .text = column.percent,
               .x = x,
               .y = at.top - 0.5 * kLine,
               .colour = colour,
               .size = kPercentSize,
               .bold = true,
               .align = Align::center}) +
           draw(Text{
               .text = column.time,
               .x = x,
               .y = at.top - 1.5 * kLine,
               .colour = colour,
               .size = kTimeSize,
               .align = Align::center});
  }

  /// For narrow bars: one line of text, turned.
  std::string draw_numbers_upright(
      const Theme& theme, const Plane& plane, const Column& column, double x) const {
    const std::string numbers = column.percent + "  " + column.time;
    const double height = width_of(numbers, kTimeSize);
    const Place at = place(plane, column, height);
    const std::string& colour = colour_of_numbers(theme, column, at);
    return draw(Text{
        .text = numbers,
        .x = x,
        .y = at.inside ? at.top : at.top - height,
        .colour = colour,
        .size = kTimeSize,
        .align = at.inside ? Align::right : Align::left,
        .degrees = 90});
  }

  static const std::string& colour_of_numbers(
      const Theme& theme, const Column& column, const Place& at) {
    if (!at.inside) return theme.text;
    return is_foil(column.slug) ? theme.text_on_foil : theme.text_on_bar;
  }

  std::vector<double> roofs_from_above(const Plane& plane) const {
    std::vector<double> roofs;
    if (copy_) roofs.push_back(plane.y(*copy_));
    if (peak_in_sight_) roofs.push_back(plane.y(*peak_));
    std::sort(roofs.rbegin(), roofs.rend());
    return roofs;
  }

  std::vector<EndLabel> roof_labels(const Theme& theme, const Plane& plane) const {
    std::vector<EndLabel> labels;
    const auto add = [&](const char* name, double gbps, const std::string& colour) {
      labels.push_back({plane.y(gbps), {name, gigabytes_per_second(gbps)}, colour});
    };
    if (copy_) add("measured copy", *copy_, theme.copy);
    if (peak_in_sight_) add("data-sheet peak", *peak_, theme.peak);
    return labels;
  }

  std::string draw_roofs(const Theme& theme, const Plane& plane) const {
    std::string text = draw_end_labels(frame_, roof_labels(theme, plane));
    const auto add = [&](double gbps, const std::string& colour, const char* dash) {
      const double y = plane.y(gbps);
      text += draw(Line{
          .x1 = frame_.left,
          .y1 = y,
          .x2 = frame_.right,
          .y2 = y,
          .colour = colour,
          .width = 1.6,
          .dash = dash});
    };
    if (copy_) add(*copy_, theme.copy, "(6,4)");
    if (peak_in_sight_) add(*peak_, theme.peak, "(14,5)");
    return text;
  }

  std::vector<Column> columns_;
  Result example_;
  std::optional<double> copy_;
  std::optional<double> peak_;
  bool peak_in_sight_ = false;
  double highest_ = 0;  ///< of all that is drawn, GB/s

  Frame frame_{};
  double column_width_ = 0;
  double bar_width_ = 0;
  bool narrow_ = false;  ///< slugs and numbers are turned, for want of width
};

}  // namespace

std::string progression_name(const std::vector<Result>& results, const Condition& condition) {
  for (const Condition& other : timed_conditions(results)) {
    if (other.regime == condition.regime && other.cache != condition.cache) {
      return fmt::format("progression_{}_{}", condition.regime, condition.cache);
    }
  }
  return "progression_" + condition.regime;
}

Chart progression_chart(const std::vector<Result>& results, const Condition& condition) {
  const Progression progression(results, condition);
  return {progression.data(), [progression](const Theme& theme) {
            return progression.commands(theme);
          }};
}

}  // namespace rmsnorm::plots
