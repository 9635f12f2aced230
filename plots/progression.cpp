#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "plots/charts.hpp"
#include "plots/format.hpp"
#include "plots/row_chart.hpp"

namespace rmsnorm::plots {
namespace {

/// A peak further away than this, in multiples of the longest bar, is not drawn.
constexpr double kPeakInSight = 1.3;

enum Kind { kFamily, kVariant, kBefore, kThis };

/// The lesson that a title is about, and what it is compared with.
struct Step {
  const Result* lesson = nullptr;
  const Result* before = nullptr;

  double times() const { return *before->median_us / *lesson->median_us; }
};

bool is_lesson(const std::string& name) {
  return !name.empty() && name.front() >= '0' && name.front() <= '9';
}

/// What the lesson is compared with where kRungs has no say: the lesson before.
std::string before_of(const std::string& lesson, const std::string& previous) {
  const auto rung = std::find_if(std::begin(kRungs), std::end(kRungs), [&](const Rung& one) {
    return lesson == one.lesson && !is_variant(one.before);
  });
  return rung == std::end(kRungs) ? previous : rung->before;
}

/// The step of the ladder that saves the largest part of the time; null if there is none.
Step largest_step(const std::vector<Result>& shown) {
  Step largest;
  std::string previous;
  for (const Result& r : shown) {
    if (!is_lesson(r.implementation) || is_variant(r.implementation)) continue;
    const std::string before = before_of(r.implementation, previous);
    previous = r.implementation;
    for (const Result& other : shown) {
      const Step step{&r, &other};
      if (other.implementation != before || !r.median_us || !other.median_us) continue;
      if (!largest.lesson || step.times() > largest.times()) largest = step;
    }
  }
  return largest;
}

/// "07_multi_row is 5.66 times as fast as 06_float4"
std::string finding(const Step& step, const std::string& lesson) {
  const double times = step.times();
  const std::string& before = step.before->implementation;
  if (times >= 0.995 && times < 1.005) return fmt::format("{} is as fast as {}", lesson, before);
  const double ratio = std::max(times, 1 / times);
  const std::string number = fmt::format("{:.{}f}", ratio, ratio < 10 ? 2 : 1);
  return times > 1 ? fmt::format("{} is {} times as fast as {}", lesson, number, before)
                   : fmt::format("{} takes {} times as long as {}", lesson, number, before);
}

/// The time of the copy of as many bytes, in microseconds.
std::optional<double> copy_us(const Result& r) {
  if (!r.copy_gbps) return {};
  return static_cast<double>(r.bytes) / *r.copy_gbps / 1e3;
}

/// The row of a result; its label names a type that is not the chart's.
ChartRow row_of(const Result& r, Kind kind, bool is_about_time, const std::string& dtype) {
  const Colour colours[] = {text_colour, accent<2>, accent<1>, accent<0>};
  const std::string name = r.dtype == dtype ? r.implementation : r.implementation + ", " + r.dtype;
  ChartRow row{.label = {{name, colours[kind]}}};
  const auto share = percent_of_copy(r);
  const auto length = is_about_time ? r.median_us : share;
  if (!r.median_us || !length) {
    row.text = {{to_string(r.verdict), muted_colour}};
    return row;
  }
  row.marks = {{kind, *length, std::clamp(r.spread_pct.value_or(0), 0.0, 100.0)}};
  row.text = {{microseconds(*r.median_us), colours[kind]}};
  if (share) row.text[0].text = percent(*share) + "  " + row.text[0].text;
  return row;
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
  if (first.cache == Cache::warm) chart.title += ", warm L2";
  chart.subtitle = fmt::format(
      "{}, {} × {} {}, {}, {} L2: {}", first.regime, first.rows, first.hidden, dtype, first.device,
      cache,
      is_about_time ? "time of a launch; shorter is better"
                    : "bandwidth in % of the measured copy, and time of a launch");
  chart.x_name = is_about_time ? "µs" : "% of the measured copy";
  Roof copy{{}, "", text_colour, "(6,4)"};
  Roof peak{{}, "", muted_colour, "(14,5)"};
  double highest = 100;
  for (const Result& r : shown) {
    const bool is_of_lesson =
        step.lesson && r.implementation.starts_with(step.lesson->implementation);
    const Kind kind = &r == step.lesson   ? kThis
                      : &r == step.before ? kBefore
                      : is_of_lesson      ? kVariant
                                          : kFamily;
    chart.rows.push_back(row_of(r, kind, is_about_time, dtype));
    for (const Mark& mark : chart.rows.back().marks) highest = std::max(highest, mark.value);
    copy.values.push_back(is_about_time ? copy_us(r) : std::optional<double>(100));
    if (r.copy_gbps) {
      copy.label = is_about_time ? "measured copy, " + microseconds(*copy_us(r))
                                 : "measured copy, " + gigabytes_per_second(*r.copy_gbps);
      if (r.peak_gbps) {
        peak.values = {100 * *r.peak_gbps / *r.copy_gbps};
        peak.label = "data-sheet peak, " + gigabytes_per_second(*r.peak_gbps);
      }
    }
  }
  if (!copy.label.empty()) chart.roofs.push_back(copy);
  if (!is_about_time && !peak.values.empty() && *peak.values.front() <= kPeakInSight * highest) {
    peak.values.resize(shown.size(), peak.values.front());
    chart.roofs.push_back(peak);
  }
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
  return bars_of(shown, largest_step(shown), condition.dtype, condition.regime == "decode");
}

std::optional<Chart> lesson_chart(const std::vector<Result>& results, const Rung& rung) {
  const Condition condition{rung.regime, rung.cache};
  const std::string lesson = rung.lesson;
  std::string operation;
  for (const Result& r : results)
    if (r.implementation == lesson) operation = r.operation;
  const std::vector<Result> shown = only(of_operation(results, operation), [&](const Result& r) {
    const bool is_of_lesson = r.implementation == lesson || r.implementation == rung.before ||
                              r.implementation.starts_with(lesson + "/");
    if (is_variant(r.implementation) && !is_of_lesson) return false;
    if (r.implementation == lesson &&
        is_shown(r, {rung.regime, rung.cache, std::string(rung.dtype)}))
      return true;
    return is_shown(r, condition);
  });
  Step step;
  for (const Result& r : shown) {
    if (!r.median_us) continue;
    if (r.implementation == lesson && r.dtype == rung.dtype) step.lesson = &r;
    if (r.implementation == rung.before && r.dtype == condition.dtype) step.before = &r;
  }
  if (!step.lesson || !step.before) return std::nullopt;
  const bool is_about_time = condition.regime == "decode" || rung.dtype != condition.dtype;
  return bars_of(shown, step, condition.dtype, is_about_time);
}

}  // namespace rmsnorm::plots
