#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>

#include "plots/charts.hpp"
#include "plots/layout.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kRight = 10;       ///< free right of the last panel
constexpr double kPanelGap = 14;    ///< between panels
constexpr double kRow = 18;         ///< the height of an implementation's row
constexpr double kPanelName = 44;   ///< for a panel's name
constexpr double kUnderRows = 10;   ///< free below the last row
constexpr double kHalfCount = 0.3;  ///< in rows
constexpr double kSlugSize = 12;
constexpr double kNumberSize = 12;
constexpr double kNumberGap = 4;  ///< between a bar and its number
constexpr std::size_t kAcross = 2;

/// What one panel shows.
struct Quantity {
  const char* name;  ///< of the data, too
  const char* title;
  const char* unit;
  double (*of)(const RowCost&);
};

constexpr std::array<Quantity, 4> kQuantities = {{
    {"sectors", "Sectors", "of global memory",
     [](const RowCost& cost) { return (cost.read + cost.written) / kSectorBytes; }},
    {"requests", "Requests", "to global memory", [](const RowCost& cost) { return cost.requests; }},
    {"wavefronts", "Wavefronts", "of shared memory",
     [](const RowCost& cost) { return cost.wavefronts; }},
    {"barriers", "Barriers", "of the block", [](const RowCost& cost) { return cost.barriers; }},
}};

/// All digits of what is whole, three of what is not.
std::string number(double count) {
  if (std::abs(count - std::round(count)) < 1e-9 * count || count >= 100) {
    return fmt::format("{:.0f}", count);
  }
  return fmt::format("{:.3g}", count);
}

/// Whether a count is more than another, not only rounded otherwise.
bool is_more(double a, double b) {
  return a - b > 1e-9 * a;
}

/// A bar, and behind it a pale one.
struct CountBar {
  double value;
  double before;  ///< of the one before, where that was more; else 0
};

/// A panel's bars, one for each implementation, and what is drawn of them.
struct Panel {
  const Quantity* quantity;
  std::vector<CountBar> bars;
  std::vector<Series> series;  ///< in the order in which they are drawn, without empty ones
};

/// Whether the bars of two regimes would be the same.
bool are_the_same(const std::vector<CountedCost>& a, const std::vector<CountedCost>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one.implementation == other.implementation &&
           std::all_of(kQuantities.begin(), kQuantities.end(), [&](const Quantity& quantity) {
             return number(quantity.of(one.cost)) == number(quantity.of(other.cost));
           });
  });
}

/// What the first lesson and the last implementation need: "2048 to 1536 sectors".
std::string finding(const std::vector<CountedCost>& costs) {
  std::vector<std::string> steps;
  for (const Quantity& quantity : kQuantities) {
    const std::string first = number(quantity.of(costs.front().cost));
    const std::string last = number(quantity.of(costs.back().cost));
    if (first != last) steps.push_back(fmt::format("{} → {} {}", first, last, quantity.name));
  }
  return fmt::format("{}", fmt::join(steps, ", "));
}

Panel panel_of(const Quantity& quantity, const std::vector<CountedCost>& costs) {
  Panel panel{&quantity, {}, {}};
  Series now{quantity.name, {}};
  Series before{now.name + "_before", {}};
  double last = 0;
  for (const CountedCost& row : costs) {
    const auto at = static_cast<double>(panel.bars.size());
    const double value = quantity.of(row.cost);
    panel.bars.push_back({value, is_more(last, value) ? last : 0});
    if (panel.bars.back().before > 0) before.points.emplace_back(at, last);
    now.points.emplace_back(at, value);
    last = value;
  }
  if (!before.points.empty()) panel.series.push_back(before);
  panel.series.push_back(now);
  return panel;
}

/// Where the panels stand on the canvas: two side by side, and two below them.
struct Places {
  double first_panel;
  double panel;   ///< a panel's width, with its numbers
  double height;  ///< of its rows

  double left_of(std::size_t panel_index) const {
    return first_panel + static_cast<double>(panel_index % kAcross) * (panel + kPanelGap);
  }
  /// The upper edge of a panel's rows.
  double top_of(std::size_t panel_index) const {
    const std::size_t below = kQuantities.size() / kAcross - 1 - panel_index / kAcross;
    return kUnderRows + height + static_cast<double>(below) * (height + kPanelName);
  }
  double middle_of(std::size_t panel_index, std::size_t i) const {
    return top_of(panel_index) - kRow * (static_cast<double>(i) + 0.5);
  }
};

Places places_of(const std::vector<CountedCost>& costs) {
  double widest = 0;
  for (const CountedCost& row : costs)
    widest = std::max(widest, width_of(row.implementation, kSlugSize));
  const double first_panel = kMargin + widest + 6;
  const double across = static_cast<double>(kAcross);
  return {
      first_panel, (kCanvasWidth - kRight - first_panel - kPanelGap * (across - 1)) / across,
      kRow * static_cast<double>(costs.size())};
}

/// The implementations' names, left of the panels of one line.
std::string draw_slugs(
    const Theme& theme, const Places& places, std::size_t first_panel,
    const std::vector<CountedCost>& costs) {
  std::string text;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const double y = places.middle_of(first_panel, i);
    text += draw(Line{{kMargin, y + kRow / 2}, {kCanvasWidth - kRight, y + kRow / 2}, theme.grid}) +
            draw(Text{
                .text = costs[i].implementation,
                .at = {kMargin, y},
                .colour = theme.text,
                .size = kSlugSize});
  }
  return text;
}

/// The end of the bar or, where the number would reach over the end of the pale one, of that.
double end_for_number(const Plane& plane, const CountBar& bar) {
  const double end = plane.x(bar.value);
  const double end_before = plane.x(bar.before);
  const double needed = width_of(number(bar.value), kNumberSize) + 2 * kNumberGap;
  return end_before - end < needed ? std::max(end, end_before) : end;
}

std::string draw_panel(
    const Theme& theme, const Places& places, std::size_t index, const Panel& panel) {
  double longest = 0;
  double widest_number = 0;
  for (const CountBar& bar : panel.bars) {
    longest = std::max({longest, bar.value, bar.before});
    widest_number = std::max(widest_number, width_of(number(bar.value), kNumberSize));
  }
  if (longest == 0) longest = 1;

  const double left = places.left_of(index);
  const double top = places.top_of(index);
  const double rows = static_cast<double>(panel.bars.size());
  const Plane plane(
      {.left = left,
       .right = left + places.panel - kNumberGap - widest_number,
       .bottom = top - rows * kRow,
       .top = top},
      {0, longest}, {rows - 0.5, -0.5});

  std::string text =
      plane.commands(theme) +
      "unset border\nunset ytics\nunset grid\nset style fill solid noborder\n" +
      draw(Text{
          .text = panel.quantity->title,
          .at = {left, top + 26},
          .colour = theme.text,
          .size = 13,
          .bold = true}) +
      draw(Text{.text = panel.quantity->unit, .at = {left, top + 10}, .colour = theme.muted});
  for (std::size_t i = 0; i < panel.bars.size(); ++i) {
    text += draw(Text{
        .text = number(panel.bars[i].value),
        .at = {end_for_number(plane, panel.bars[i]) + kNumberGap, places.middle_of(index, i)},
        .colour = theme.text,
        .size = kNumberSize,
        .bold = panel.bars[i].before > 0});
  }
  text += draw(Line{{left, plane.frame().bottom + 4}, {left, top - 4}, theme.muted});
  text += "plot NaN";
  for (const Series& series : panel.series) {
    text += fmt::format(
        ", ${} using 2:1:(0):2:($1-{}):($1+{}) with boxxyerror linecolor rgb '{}'", series.name,
        kHalfCount, kHalfCount, series.name.ends_with("_before") ? theme.grid : theme.accents[0]);
  }
  // The next panel has texts of its own.
  return text + "\nunset label\nunset arrow\n";
}

}  // namespace

std::vector<TraceRow> load_trace(const std::filesystem::path& file, const std::string& operation) {
  const std::vector<TraceRow> trace = of_fp32(of_operation(read_trace(file), operation));
  if (trace.empty())
    throw std::runtime_error(fmt::format("{}: no counts of {}", file.string(), operation));
  return trace;
}

std::vector<Regimes> counted_regimes(const std::vector<TraceRow>& trace) {
  Regimes names;
  for (const TraceRow& row : trace)
    if (!is_sweep(row.regime)) add_if_new(names, row.regime);
  std::vector<Regimes> groups;
  for (const std::string& name : names) {
    const std::vector<CountedCost> costs = row_costs(trace, name);
    if (costs.size() < 2) continue;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Regimes& group) {
      return are_the_same(row_costs(trace, group.front()), costs);
    });
    (same == groups.end() ? groups.emplace_back() : *same).push_back(name);
  }
  return groups;
}

std::vector<CountedCost> row_costs(const std::vector<TraceRow>& trace, const std::string& regime) {
  std::map<std::string, RowCost> costs;
  for (const TraceRow& row : without_variants(of_regime(trace, regime)))
    add(row.count, row.rows, costs[row.implementation]);
  std::vector<CountedCost> sorted;
  for (const auto& [implementation, cost] : costs) sorted.push_back({implementation, cost});
  return sorted;
}

Chart counts_chart(const std::vector<TraceRow>& trace, const Regimes& regimes) {
  const std::string& regime = regimes.front();
  const std::vector<CountedCost> costs = row_costs(trace, regime);
  const Places places = places_of(costs);
  std::vector<Panel> panels;
  Chart chart;
  for (const Quantity& quantity : kQuantities) {
    panels.push_back(panel_of(quantity, costs));
    const std::vector<Series>& series = panels.back().series;
    chart.data.insert(chart.data.end(), series.begin(), series.end());
  }
  chart.title = fmt::format(
      "From {} to {}, a row costs {}", costs.front().implementation, costs.back().implementation,
      finding(costs));
  chart.subtitle = fmt::format(
      "{}, {} columns, fp32, counted on the CPU device: a launch's total, divided by its rows; "
      "pale: how much more the lesson before needed",
      fmt::join(regimes, " and "), of_regime(trace, regime).front().hidden);
  chart.height = places.top_of(0) + kPanelName;
  chart.commands = [=](const Theme& theme) {
    std::string text = "set multiplot\n";
    for (std::size_t i = 0; i < panels.size(); ++i) {
      if (i % kAcross == 0) text += draw_slugs(theme, places, i, costs);
      text += draw_panel(theme, places, i, panels[i]);
    }
    return text + "unset multiplot";
  };
  return chart;
}

}  // namespace rmsnorm::plots
