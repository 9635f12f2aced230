#include "common/programs/prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

#include "common/contract/types.hpp"
#include "common/programs/report.hpp"
#include "common/records/compared.hpp"

namespace rmsnorm {
namespace {

// How far a guess may be off. Most steps of the ladder are small: the gain is graded, factor - 1.
constexpr double kRight = 0.1;
constexpr double kClose = 0.3;
// But nobody has to guess better than this, of the factor.
constexpr double kRightAtLeast = 0.01;
constexpr double kCloseAtLeast = 0.03;
constexpr double kRounding = 1e-9;  // a guess on the border is within it

double spread_us(const Result& result) {
  return *result.median_us * result.spread_pct.value_or(0) / 100;
}

/// Three digits, and all of the whole part.
std::string factor_text(double factor) {
  if (factor < 1) return fmt::format("{:.3g}", factor);
  return fmt::format("{:.{}f}", factor, factor < 10 ? 2 : factor < 100 ? 1 : 0);
}

std::string percent_text(double percent) {
  return fmt::format("{:.{}f} %", percent, percent < 0.1 ? 2 : 1);
}

/// A result to grade by. \throws std::runtime_error if it is none
const Result& timed(
    const Result* found, const std::string& lesson, const Regime& regime, Cache cache) {
  const std::string where = fmt::format("{} in {}, {}", lesson, regime.name, to_string(cache));
  if (found == nullptr) throw std::runtime_error("there is no result of " + where);
  if (found->verdict != Verdict::pass) {
    throw std::runtime_error(
        fmt::format("{} cannot be graded: its verdict is '{}'", where, to_string(found->verdict)));
  }
  if (found->median_us.value_or(0) <= 0) throw std::runtime_error(where + " was not timed");
  return *found;
}

}  // namespace

std::vector<Implementation> predecessor_and_lesson(
    const std::vector<Implementation>& all, const std::vector<Implementation>& chosen) {
  std::optional<Implementation> lesson;
  for (const Implementation& candidate : chosen) {
    if (is_variant(candidate.slug)) continue;
    if (lesson) throw std::runtime_error("one lesson at a time: --lesson NAME chooses it");
    lesson = candidate;
  }
  if (!lesson) throw std::runtime_error("a variant has no predecessor: choose its lesson");
  const std::string slug = lesson->slug;
  if (lesson->memory == Memory::host || *lesson->regime == '\0') {
    throw std::runtime_error(slug + " is about no speed, so there is nothing to predict");
  }

  bool has_earlier = false;
  std::optional<Implementation> earlier;
  std::optional<Implementation> variant;
  for (const Implementation& other : all) {
    if (!variant && std::string_view(other.slug).starts_with(slug + "/")) variant = other;
    if (is_variant(other.slug) || other.slug >= slug) continue;
    has_earlier = true;
    const std::string_view from = lesson->starts_from;
    if (other.memory != Memory::device) continue;
    if (from.empty() ? other.operation == lesson->operation : from == other.slug) earlier = other;
  }
  const std::optional<Implementation> predecessor = earlier || !has_earlier ? earlier : variant;
  if (!predecessor) {
    throw std::runtime_error(fmt::format(
        "this program does not hold what came before {}: ./rmsnorm lesson N --predict does", slug));
  }
  return {*predecessor, *lesson};
}

std::string grade(double guess, const Result& before, const Result& after) {
  const double factor = *before.median_us / *after.median_us;
  const double spreads = spread_us(before) + spread_us(after);
  if (std::abs(*before.median_us - *after.median_us) <= spreads) {
    return std::abs(guess - 1) <= kCloseAtLeast + kRounding
               ? "that is it: nothing measurable changed"
               : "nothing measurable changed: the difference lies within the spreads";
  }
  const double off = std::abs(guess - factor) / factor;
  const double gain = std::abs(factor - 1) / factor;
  const double spread = spreads / *before.median_us;
  if (off <= std::max({kRight * gain, kRightAtLeast, spread}) + kRounding) return "that is it";
  if ((guess - 1) * (factor - 1) < 0) return "it went the other way";
  if (off <= std::max(kClose * gain, kCloseAtLeast) + kRounding) return "close";
  return factor < guess ? "slower than you thought" : "faster than you thought";
}

std::string graded_prediction(
    double guess, const std::string& before, const std::string& after, const Regime& regime,
    const std::vector<Result>& results, std::string_view whose) {
  const auto pair_in = [&](Cache cache) -> std::pair<const Result&, const Result&> {
    const Compared pair = compared(results, before, after, regime.name, cache);
    const Result& lesson = timed(pair.lesson, after, regime, cache);
    return {timed(pair.before, before, regime, cache), lesson};
  };
  const auto [earlier, first] = pair_in(regime.caches.at(0));
  std::string other_run;
  if (earlier.version != first.version)
    other_run = fmt::format("; {}: commit {}, {}", before, earlier.version, earlier.date);
  std::string text = fmt::format(
      "{} after {} in {}, {} x {}, {}: {}, commit {}, {}{}\n", with_dtype(after, first.dtype),
      before, regime.name, first.rows, first.hidden, whose, first.device, first.version, first.date,
      other_run);
  for (const Cache cache : regime.caches) {
    const auto [was, is] = pair_in(cache);
    for (const Result* result : {&was, &is}) {
      // Another operation may have been measured later, on the same kind of GPU.
      const bool is_alike =
          result->version == first.version || result->operation != first.operation;
      if (result->device != first.device || !is_alike || result->rows != first.rows ||
          result->hidden != first.hidden) {
        throw std::runtime_error(fmt::format(
            "{} and {} in {} were not measured in the same run", before, after, regime.name));
      }
    }
    const auto disturbed = was.disturbed ? was.disturbed : is.disturbed;
    text += fmt::format(
        "{}, {}   you said {:g} x, measured {} x: {} -> {}, spreads {} and {}{}   {}\n",
        regime.name, to_string(cache), guess, factor_text(*was.median_us / *is.median_us),
        microseconds(*was.median_us), microseconds(*is.median_us),
        percent_text(was.spread_pct.value_or(0)), percent_text(is.spread_pct.value_or(0)),
        disturbed ? fmt::format(", {}", in_words(*disturbed)) : "", grade(guess, was, is));
  }
  return text +
         fmt::format(
             "The reason is discussed in lessons/{}/README.md, \"Predict, then look\".\n", after);
}

}  // namespace rmsnorm
