#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "plots/charts.hpp"
#include "plots/layout.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kLeft = 18;      ///< where slugs begin, under the title
constexpr double kRight = 16;     ///< free right of the last panel
constexpr double kGap = 26;       ///< between panels
constexpr double kTop = 372;      ///< of the first row
constexpr double kBottom = 18;    ///< of the last row, at least
constexpr double kTallest = 58;   ///< a row of one implementation, at most
constexpr double kHalfBar = 0.3;  ///< in rows
constexpr double kSlugSize = 12;
constexpr double kNumberSize = 12;
constexpr double kNumberGap = 6;  ///< between a bar and its number

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

/// Where the rows of implementations and the panels stand on the canvas.
struct Places {
  double first_panel;
  double panel;  ///< a panel's width, with its numbers
  double row;    ///< a row's height

  double middle_of(std::size_t i) const { return kTop - row * (static_cast<double>(i) + 0.5); }
};

Places places_of(const std::vector<CountedCost>& costs) {
  double widest = 0;
  for (const CountedCost& row : costs)
    widest = std::max(widest, width_of(row.implementation, kSlugSize));
  const double first_panel = kLeft + widest + 8;
  const double panels = static_cast<double>(kQuantities.size());
  return {
      first_panel, (kCanvasWidth - kRight - first_panel - kGap * (panels - 1)) / panels,
      std::min(kTallest, (kTop - kBottom) / static_cast<double>(costs.size()))};
}

std::string draw_row(
    const Theme& theme, const Places& places, std::size_t i, const std::string& slug) {
  const double above = kTop - places.row * static_cast<double>(i);
  return draw(Line{{kLeft, above}, {kCanvasWidth - kRight, above}, theme.grid}) +
         draw(Text{
             .text = slug,
             .at = {kLeft, places.middle_of(i)},
             .colour = theme.text,
             .size = kSlugSize});
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

  const double left = places.first_panel + static_cast<double>(index) * (places.panel + kGap);
  const double rows = static_cast<double>(panel.bars.size());
  const Plane plane(
      {.left = left,
       .right = left + places.panel - kNumberGap - widest_number,
       .bottom = kTop - rows * places.row,
       .top = kTop},
      {0, longest}, {rows - 0.5, -0.5});

  std::string text =
      plane.commands(theme) +
      "unset border\nunset ytics\nunset grid\nset style fill solid noborder\n" +
      draw(Text{
          .text = panel.quantity->title,
          .at = {left, kTop + 36},
          .colour = theme.text,
          .size = 13,
          .bold = true}) +
      draw(Text{.text = panel.quantity->unit, .at = {left, kTop + 17}, .colour = theme.muted});
  for (std::size_t i = 0; i < panel.bars.size(); ++i) {
    text += draw(Text{
        .text = number(panel.bars[i].value),
        .at = {end_for_number(plane, panel.bars[i]) + kNumberGap, places.middle_of(i)},
        .colour = theme.text,
        .size = kNumberSize,
        .bold = panel.bars[i].before > 0});
  }
  text += draw(Line{{left, plane.frame().bottom + 4}, {left, kTop - 4}, theme.muted});
  text += "plot NaN";
  for (const Series& series : panel.series) {
    text += fmt::format(
        ", ${} using 2:1:(0):2:($1-{}):($1+{}) with boxxyerror linecolor rgb '{}'", series.name,
        kHalfBar, kHalfBar, series.name.ends_with("_before") ? theme.grid : theme.bar);
  }
  // The next panel has texts of its own.
  return text + "\nunset label\nunset arrow\n";
}

void require_unique(const std::filesystem::path& file, const std::vector<TraceRow>& trace) {
  std::set<std::tuple<
      std::string, std::string, std::int64_t, int, std::string, int, std::string, std::string, int>>
      seen;
  for (const TraceRow& row : trace) {
    const LineCount& c = row.count;
    if (seen.emplace(
                row.implementation, row.regime, row.rows, row.hidden, c.file, c.line, c.kind,
                c.what, c.bytes)
            .second) {
      continue;
    }
    throw std::runtime_error(fmt::format(
        "{}: {} in {} has two counts of {} at {}:{}", file.string(), row.implementation, row.regime,
        c.kind, c.file, c.line));
  }
}

/// A chart has one title for all, and one launch for each.
void require_one_shape(const std::filesystem::path& file, const std::vector<TraceRow>& trace) {
  std::map<std::string, int> hidden_of;
  std::map<std::pair<std::string, std::string>, std::int64_t> rows_of;
  for (const TraceRow& row : trace) {
    if (is_sweep(row.regime)) continue;
    if (hidden_of.emplace(row.regime, row.hidden).first->second == row.hidden &&
        rows_of.emplace(std::pair(row.implementation, row.regime), row.rows).first->second ==
            row.rows) {
      continue;
    }
    throw std::runtime_error(
        fmt::format("{}: there are launches of different shapes in {}", file.string(), row.regime));
  }
}

}  // namespace

std::vector<TraceRow> load_trace(const std::filesystem::path& file, const std::string& operation) {
  const std::vector<TraceRow> trace = of_fp32(of_operation(read_trace(file), operation));
  if (trace.empty())
    throw std::runtime_error(fmt::format("{}: no counts of {}", file.string(), operation));
  for (const TraceRow& row : trace) {
    if (row.rows >= 1 && row.hidden >= 1) continue;
    throw std::runtime_error(fmt::format(
        "{}: a count of {} has {} rows of {} columns", file.string(), row.implementation, row.rows,
        row.hidden));
  }
  require_unique(file, trace);
  require_one_shape(file, trace);
  return trace;
}

std::vector<std::string> counted_regimes(const std::vector<TraceRow>& trace) {
  std::vector<std::string> regimes;
  for (const TraceRow& row : trace) {
    const bool known = std::find(regimes.begin(), regimes.end(), row.regime) != regimes.end();
    if (known || is_sweep(row.regime)) continue;
    if (row_costs(trace, row.regime).size() >= 2) regimes.push_back(row.regime);
  }
  return regimes;
}

std::vector<CountedCost> row_costs(const std::vector<TraceRow>& trace, const std::string& regime) {
  std::map<std::string, RowCost> costs;
  for (const TraceRow& row : without_variants(of_regime(trace, regime)))
    add(row.count, row.rows, costs[row.implementation]);
  std::vector<CountedCost> sorted;
  for (const auto& [implementation, cost] : costs) sorted.push_back({implementation, cost});
  return sorted;
}

Chart counts_chart(const std::vector<TraceRow>& trace, const std::string& regime) {
  const std::vector<CountedCost> costs = row_costs(trace, regime);
  if (costs.empty()) throw std::runtime_error(fmt::format("nothing was counted in '{}'", regime));
  std::vector<Panel> panels;
  Chart chart;
  for (const Quantity& quantity : kQuantities) {
    panels.push_back(panel_of(quantity, costs));
    const std::vector<Series>& series = panels.back().series;
    chart.data.insert(chart.data.end(), series.begin(), series.end());
  }
  const std::string title = fmt::format(
      "What a row costs, counted on the CPU device: {}, {} columns", regime,
      of_regime(trace, regime).front().hidden);
  chart.commands = [=](const Theme& theme) {
    const Places places = places_of(costs);
    std::string text =
        "set multiplot\n" +
        draw_title(
            theme, title,
            "a launch's total, divided by its rows; pale: how much more the lesson before needed");
    for (std::size_t i = 0; i < costs.size(); ++i)
      text += draw_row(theme, places, i, costs[i].implementation);
    for (std::size_t i = 0; i < panels.size(); ++i) text += draw_panel(theme, places, i, panels[i]);
    return text + "unset multiplot";
  };
  return chart;
}

}  // namespace rmsnorm::plots
