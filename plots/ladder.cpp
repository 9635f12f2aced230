#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/records/row_cost.hpp"
#include "plots/charts.hpp"
#include "plots/row_chart.hpp"

namespace rmsnorm::plots {
namespace {

enum { kWas, kIs };

/// What a row costs, and what that is called.
struct Quantity {
  const char* name;
  double (*of)(const RowCost&);
};

constexpr Quantity kQuantities[] = {
    // as in Counted
    {"sectors", [](const RowCost& cost) { return (cost.read + cost.written) / kSectorBytes; }},
    {"requests", [](const RowCost& cost) { return cost.requests; }},
    {"wavefronts", [](const RowCost& cost) { return cost.wavefronts; }},
    {"barriers", [](const RowCost& cost) { return cost.barriers; }},
};

/// What a row costs an implementation, with tensors of a type; nothing if that was not counted.
std::optional<RowCost> cost_of(
    const std::vector<TraceRow>& trace, const std::string& implementation,
    const std::string& regime, const std::string& dtype) {
  std::optional<RowCost> cost;
  for (const TraceRow& row : trace) {
    if (row.implementation != implementation || row.regime != regime || row.dtype != dtype)
      continue;
    if (!cost) cost.emplace();
    add(row.count, row.rows, *cost);
  }
  return cost;
}

/// What the two of a rung cost.
struct Costs {
  std::optional<RowCost> before;
  std::optional<RowCost> lesson;
};

/// As predictions are graded: in bf16, a lesson that lacks it in fp32; both in fp32 where what is
/// compared with a lesson is a variant without bf16.
Costs costs_of(const std::vector<TraceRow>& trace, const Rung& rung) {
  const auto cost = [&](const char* implementation, const char* dtype) {
    return cost_of(trace, implementation, rung.regime, dtype);
  };
  const Costs bf16 = {cost(rung.before, "bf16"), cost(rung.lesson, "bf16")};
  const bool is_own_variant = std::string_view(rung.before).starts_with(rung.lesson);
  if (bf16.before && bf16.lesson) return bf16;
  const Costs fp32 = {cost(rung.before, "fp32"), cost(rung.lesson, "fp32")};
  return {fp32.before, is_own_variant || !bf16.lesson ? fp32.lesson : bf16.lesson};
}

/// All digits of what is whole, three of what is not.
std::string number(double count) {
  return count >= 100 || std::abs(count - std::round(count)) < 1e-9 * count
             ? fmt::format("{:.0f}", count)
             : fmt::format("{:.3g}", count);
}

std::string change(const Quantity& quantity, const Costs& step) {
  return fmt::format(
      "{} {} → {}", quantity.name, number(quantity.of(*step.before)),
      number(quantity.of(*step.lesson)));
}

/// How many times as much the lesson needs.
double growth(const Quantity& quantity, const Costs& step) {
  const double before = quantity.of(*step.before);
  const double lesson = quantity.of(*step.lesson);
  return std::abs(lesson - before) <= 1e-9 * before ? 1 : lesson / before;
}

}  // namespace

std::optional<Chart> ladder_chart(const std::vector<TraceRow>& trace, bool is_card) {
  RowChart chart;
  chart.x_name = "% of what the lesson starts from; shorter is better";
  chart.kinds = {{family_colour, "what it starts from"}, {accent<0>, "the lesson"}};
  std::vector<std::string> unchanged;
  int steps = 0;
  int saving = 0;
  for (const Rung& rung : kRungs) {
    if (rung.idea == nullptr) continue;
    const Costs step = costs_of(trace, rung);
    if (!step.before || !step.lesson) continue;
    const Quantity& shown = kQuantities[static_cast<std::size_t>(rung.about)];
    const Quantity& worst = *std::ranges::max_element(
        kQuantities, {}, [&](const Quantity& quantity) { return growth(quantity, step); });
    const double share = growth(shown, step);
    const bool is_paid = &worst != &shown && growth(worst, step) > 1;
    ChartRow row;
    row.label = {{fmt::format("{}, {}", rung.lesson, rung.regime)}, {rung.idea, muted_colour}};
    row.marks = {{kWas, 100}, {kIs, 100 * share}};
    row.text = {{change(shown, step), share < 1 ? Colour(accent<0>) : Colour(accent<1>)}};
    if (share == 1)
      row.text = {
          {is_paid ? fmt::format("{} as before", shown.name) : "no count changes", muted_colour}};
    if (is_paid) row.text.push_back({change(worst, step), accent<1>});
    if (share < 1) ++saving;
    if (share == 1 && !is_paid) unchanged.push_back(short_name(rung.lesson));
    if (is_card) {
      row.label = {{short_name(rung.lesson) + "  " + rung.idea}};
      row.text.resize(1);
    }
    if (!is_card || share < 1) chart.rows.push_back(row);
    ++steps;
  }
  if (steps == 0) return std::nullopt;
  chart.title = fmt::format("{} of {} steps cut the count that they are about", saving, steps);
  if (!unchanged.empty())
    chart.title += fmt::format("; no count changes in {}", fmt::join(unchanged, ", "));
  chart.subtitle =
      "what a row costs in the regime and the types of each lesson's prediction, counted by the "
      "CPU device";
  if (!is_card) chart.subtitle += "; orange: what rises";
  return draw(std::move(chart));
}

}  // namespace rmsnorm::plots
