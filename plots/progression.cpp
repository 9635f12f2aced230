#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/records/compared.hpp"
#include "plots/charts.hpp"
#include "plots/format.hpp"
#include "plots/row_chart.hpp"

namespace rmsnorm::plots {
namespace {

/// A peak further away than this, in multiples of the longest bar, is not drawn.
constexpr double kPeakInSight = 1.3;

enum BarKind { kFamily, kVariant, kBefore, kThis };

/// The lesson that a title is about, and what it is compared with.
struct Step {
  const Result* lesson = nullptr;
  const Result* before = nullptr;

  double times() const { return *before->median_us / *lesson->median_us; }
};

/// By the lessons' numbers.
bool is_later(const std::string& name, const std::string& lesson) {
  return is_lesson(name) && name.substr(0, 2) > lesson.substr(0, 2);
}

/// What the lesson is compared with where kRungs has no say: the lesson before.
std::string before_of(const std::string& lesson, const std::string& previous) {
  const auto rung = std::ranges::find_if(
      kRungs, [&](const Rung& one) { return lesson == one.lesson && !is_variant(one.before); });
  return rung == std::end(kRungs) ? previous : rung->before;
}

/// A step that saves less than this is no finding.
constexpr double kLarge = 1.1;

/// The step of the ladder that saves the largest part of the time or, where none saves much, the
/// whole ladder: from its first lesson to the first of those that are as fast as the fastest. Null
/// if there is none.
Step largest_step(const std::vector<Result>& shown) {
  Step largest, whole;
  std::string previous;
  for (const Result& r : shown) {
    if (!is_lesson(r.implementation) || is_variant(r.implementation)) continue;
    const std::string before = before_of(r.implementation, previous);
    previous = r.implementation;
    if (!r.median_us) continue;
    if (!whole.before) whole.before = &r;
    if (!whole.lesson || *r.median_us < 0.995 * *whole.lesson->median_us) whole.lesson = &r;
    const Step step{&r, find_result(shown, before, condition_of(r))};
    if (!step.before || !step.before->median_us) continue;
    if (!largest.lesson || step.times() > largest.times()) largest = step;
  }
  return largest.lesson && largest.times() < kLarge ? whole : largest;
}

/// "07_multi_row is 5.66 times as fast as 06_float4"
std::string finding(const Step& step, const std::string& lesson) {
  const double times = step.times();
  const std::string& before = step.before->implementation;
  if (times >= 0.995 && times < 1.005) return fmt::format("{} is as fast as {}", lesson, before);
  const double ratio = std::max(times, 1 / times);
  const std::string number = factor(ratio);
  return times > 1 ? fmt::format("{} is {} times as fast as {}", lesson, number, before)
                   : fmt::format("{} takes {} times as long as {}", lesson, number, before);
}

/// What a row is called: the name says a type that is not the chart's.
std::string name_of(const Result& r, const std::string& dtype) {
  return r.dtype == dtype ? r.implementation : r.implementation + ", " + r.dtype;
}

ChartRow row_of(const Result& r, BarKind kind, bool is_about_time, const std::string& dtype) {
  const Colour colours[] = {text_colour, accent<2>, accent<1>, accent<0>};
  ChartRow row{.label = {{name_of(r, dtype), colours[kind]}}};
  const auto share = percent_of_roof(r);
  const auto length = is_about_time ? r.median_us : share;
  if (!r.median_us || !length) {
    row.text = {{to_string(r.verdict), muted_colour}};
    return row;
  }
  row.marks = {{kind, *length, std::clamp(r.spread_pct.value_or(0), 0.0, 100.0)}};
  row.text = {{microseconds(*r.median_us), colours[kind]}};
  if (share) row.text[0].text = percent(*share) + "  " + row.text[0].text;
  row.text[0].text += mark_of(r);
  return row;
}

/// The roofs of one run differ by less than this share.
constexpr double kSameRoof = 0.005;

/// "measured copy, 2015 µs; 10_half_precision, bf16: 1001 µs": the first row's roof, and those of
/// the first rows that were compared with another. Empty if none was measured.
std::string roof_label(
    const std::vector<Result>& shown, bool is_about_time, const std::string& dtype) {
  std::string label;
  std::vector<double> named;
  for (const Result& r : shown) {
    const auto roof = is_about_time ? roof_us(r) : r.roof_gbps;
    const auto is_same = [&](double other) { return std::abs(other / *roof - 1) < kSameRoof; };
    if (!roof || std::ranges::any_of(named, is_same)) continue;
    label += named.empty() ? fmt::format("measured {}, ", word_for_roof(shown))
                           : "; " + name_of(r, dtype) + ": ";
    label += is_about_time ? microseconds(*roof) : gigabytes_per_second(*roof);
    named.push_back(*roof);
  }
  return label;
}

/// Bars of the given results; `step` is what they show.
Chart bars_of(
    const std::vector<Result>& shown, const Step& step, const std::string& dtype,
    bool is_about_time) {
  const Result& first = shown.front();
  RowChart chart;
  chart.kinds = {{family_colour}, {accent<2>}, {accent<1>}, {accent<0>}};
  if (step.lesson) {
    const bool is_other = step.lesson->dtype != dtype;
    chart.title =
        finding(
            step, step.lesson->implementation + (is_other ? " with " + step.lesson->dtype : "")) +
        " in " + first.regime;
  } else {
    chart.title = first.regime;
  }
  const std::string cache = cache_text(first);
  const std::string roof_name = "the measured " + word_for_roof(shown);
  if (first.cache == Cache::warm) chart.title += ", warm L2";
  chart.subtitle = fmt::format(
      "{}, {} × {} {}, {}, {} L2: {}", first.regime, first.rows, first.hidden, dtype, first.device,
      cache,
      is_about_time ? "time of a launch; shorter is better"
                    : fmt::format("bandwidth in % of {}, and time of a launch", roof_name));
  chart.subtitle += words_for_mark(shown, "; ", "");
  chart.x_name = is_about_time ? "µs" : "% of " + roof_name;
  Roof roof{{}, roof_label(shown, is_about_time, dtype), text_colour, "(6,4)"};
  Roof peak{{}, "", muted_colour, "(14,5)"};
  double highest = 100;
  for (const Result& r : shown) {
    const bool is_of_lesson =
        step.lesson && r.implementation.starts_with(step.lesson->implementation);
    const BarKind kind = &r == step.lesson   ? kThis
                         : &r == step.before ? kBefore
                         : is_of_lesson      ? kVariant
                                             : kFamily;
    chart.rows.push_back(row_of(r, kind, is_about_time, dtype));
    for (const Mark& mark : chart.rows.back().marks) highest = std::max(highest, mark.value);
    roof.values.push_back(is_about_time ? roof_us(r) : std::optional<double>(100));
    peak.values.push_back(
        r.peak_gbps && r.roof_gbps ? std::optional(100 * *r.peak_gbps / *r.roof_gbps)
                                   : std::nullopt);
    if (r.peak_gbps) peak.label = "data-sheet peak, " + gigabytes_per_second(*r.peak_gbps);
  }
  if (!roof.label.empty()) chart.roofs.push_back(roof);
  const double peak_at = peak.values.front().value_or(INFINITY);
  if (!is_about_time && peak_at <= kPeakInSight * highest) chart.roofs.push_back(peak);
  return draw(std::move(chart));
}

bool is_shown(const Result& r, const Condition& condition) {
  return condition_of(r) == condition && (r.gbps || r.verdict != Verdict::pass);
}

}  // namespace

std::string progression_name(const std::vector<Result>& results, const Condition& condition) {
  for (const Condition& other : timed_conditions(results)) {
    if (other.regime == condition.regime && other.cache != condition.cache) {
      return fmt::format("progression_{}_{}", condition.regime, to_string(*condition.cache));
    }
  }
  return "progression_" + condition.regime;
}

Chart progression_chart(const std::vector<Result>& results, const Condition& condition) {
  const std::vector<Result> shown =
      only(results, [&](const Result& r) { return is_shown(r, condition); });
  return bars_of(shown, largest_step(shown), condition.dtype, condition.regime == kDecodeRegime);
}

std::optional<Chart> lesson_chart(const std::vector<Result>& results, const Rung& rung) {
  const std::string lesson = rung.lesson;
  const Compared pair = compared(results, rung.before, lesson, rung.regime, rung.cache);
  if (!pair.before || !pair.before->median_us || !pair.lesson || !pair.lesson->median_us)
    return std::nullopt;
  const Condition condition = condition_of(*pair.before);
  const Condition of_lesson = condition_of(*pair.lesson);
  std::vector<Result> shown = only(results, [&](const Result& r) {
    const bool is_in_it = is_shown(r, condition);
    if (r.implementation == lesson) return is_in_it || is_shown(r, of_lesson);
    // A variant may be of another operation, and so may be what the lesson starts from.
    if (r.implementation == rung.before || r.implementation.starts_with(lesson + "/"))
      return is_in_it;
    return is_in_it && r.operation == pair.lesson->operation && !is_variant(r.implementation) &&
           !is_later(r.implementation, lesson);
  });
  std::stable_partition(
      shown.begin(), shown.end(), [](const Result& r) { return is_lesson(r.implementation); });
  const Step step{
      find_result(shown, lesson, of_lesson), find_result(shown, rung.before, condition)};
  const bool is_about_time =
      condition.regime == kDecodeRegime || step.lesson->bytes != step.before->bytes;
  return bars_of(shown, step, condition.dtype, is_about_time);
}

}  // namespace rmsnorm::plots
