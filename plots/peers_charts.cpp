#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>

#include "plots/charts.hpp"
#include "plots/format.hpp"
#include "plots/peers.hpp"
#include "plots/row_chart.hpp"

namespace rmsnorm::plots {
namespace {

constexpr const char* kOurs = "librmsnorm";

/// Whether a result or a case is a point of the chart of lines.
template <class Measured>
bool is_on_the_line(const Measured& it) {
  return it.regime == kForwardRegime && it.dtype == "bf16" &&
         std::has_single_bit(static_cast<std::uint64_t>(it.hidden));
}

enum Kind { kOthers, kBest, kOur };  // of the others, the best one

/// What a dot shows; its unit is the axis's.
std::optional<double> value_of(const PeerCase& which, const Result* result) {
  if (result == nullptr) return {};
  return which.is_about_time() ? result->median_us : percent_of_roof(*result);
}

/// Two shares that look alike have a digit more.
std::string number(const PeerCase& which, double value, bool ties) {
  return which.is_about_time() ? fmt::format("{:.{}f}", value, value < 10 ? 2 : 1)
                               : fmt::format("{:.{}f}", value, ties ? 1 : 0);
}

/// The dots of a case, and what is written beside them: ours, and the best of the others.
ChartRow row_of(const PeerCase& which) {
  ChartRow row;
  const bool is_disturbed = std::ranges::any_of(
      which.results, [](const Result* r) { return r != nullptr && r->disturbed; });
  row.label = {{fmt::format("{} × {}{}", which.rows, which.hidden, is_disturbed ? kMark : "")}};
  if (!which.is_about_time())
    row.label.insert(row.label.begin(), {which.name() + ", " + which.dtype});
  const auto [ours, best] = race_of(which);
  for (const Result* result : which.results)
    if (const auto value = value_of(which, result))
      row.marks.push_back({result == ours ? kOur : kOthers, *value});
  const bool ties =
      ours && best && std::lround(*value_of(which, ours)) == std::lround(*value_of(which, best));
  if (ours) row.text.push_back({number(which, *value_of(which, ours), ties), accent<0>});
  if (best) {
    const double value = *value_of(which, best);
    row.marks.push_back({kBest, value});
    row.text.push_back({best->implementation + " " + number(which, value, ties), accent<1>});
  }
  return row;
}

/// In how many of the cases ours is at least as fast as the best of the others.
std::string finding(const std::vector<PeerCase>& cases) {
  const auto ahead =
      std::ranges::count_if(cases, [](const PeerCase& which) { return race_of(which).is_won(); });
  return fmt::format("{} is the fastest in {} of {} cases", kOurs, ahead, cases.size());
}

/// How far ours is ahead of the best of the others where that is most; "" if it is nowhere.
std::string lead(const std::vector<PeerCase>& cases) {
  double most = 1;
  for (const PeerCase& which : cases) {
    const auto [ours, best] = race_of(which);
    if (ours && best) most = std::max(most, *best->median_us / *ours->median_us);
  }
  if (most <= 1) return "";
  return fmt::format(", up to {} times as fast as the best other", factor(most));
}

/// The dots of some cases, where anything was timed.
template <class Wanted>
std::optional<Chart> dots_of(
    const std::vector<Result>& results, const char* what, const std::string& x_name,
    Wanted is_wanted) {
  RowChart chart;
  chart.has_dots = true;
  chart.x_name = x_name;
  chart.kinds = {{family_colour, "the others"}, {accent<1>, "the best other"}, {accent<0>, kOurs}};
  Roof roof{{}, "measured " + word_for_roof(results), text_colour, "solid"};
  std::vector<PeerCase> cases;
  std::vector<const Result*> shown;
  for (const PeerCase& which : peer_cases_of(results)) {
    if (!is_wanted(which) || !which.roof_gbps) continue;
    cases.push_back(which);
    shown.insert(shown.end(), which.results.begin(), which.results.end());
    chart.rows.push_back(row_of(which));
    roof.values.push_back(which.is_about_time() ? which.roof_us : 100);
    chart.is_logarithmic = which.is_about_time();
  }
  if (cases.empty()) return std::nullopt;
  chart.title = finding(cases);
  std::erase(shown, nullptr);
  chart.subtitle = fmt::format("{}, rows × hidden, {}, cold L2", what, results.front().device) +
                   words_for_mark(shown, "; ", "");
  chart.roofs = {roof};
  return draw(std::move(chart));
}

}  // namespace

std::optional<Chart> peers_forward_chart(const std::vector<Result>& results) {
  const Sweep forward{"peers_forward", kForwardRegime, &Result::hidden,          "hidden",
                      "columns",       "forward",      {kOurs, "torch", "quack"}};
  const std::vector<Result> shown = only(results, is_on_the_line<Result>);
  std::optional<Chart> chart = sweep_chart(shown, forward, {});
  if (!chart) return std::nullopt;
  const std::vector<PeerCase> cases = peer_cases_of(shown);
  chart->title = finding(cases) + lead(cases);
  return chart;
}

std::optional<Chart> peers_decode_chart(const std::vector<Result>& results) {
  return dots_of(
      results, "decode in bf16: time of a launch in a CUDA graph", "µs",
      [](const PeerCase& which) { return which.is_about_time() && !which.is_in_8_bits(); });
}

std::optional<Chart> peers_other_chart(const std::vector<Result>& results) {
  return dots_of(
      results, "bandwidth in % of as many bytes moved",
      "% of the measured " + word_for_roof(results), [](const PeerCase& which) {
        return !which.is_about_time() && !which.is_in_8_bits() && !is_on_the_line(which);
      });
}

}  // namespace rmsnorm::plots
