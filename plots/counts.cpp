#include "plots/counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "plots/layout.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

constexpr double kLeft = 18;      ///< where slugs begin, under the title
constexpr double kRight = 16;     ///< free right of the last panel
constexpr double kGap = 26;       ///< between panels
constexpr double kTop = 372;      ///< of the first row
constexpr double kBottom = 18;    ///< of the last row, at least
constexpr double kTallest = 58;   ///< a row of one lesson, at most
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
struct Bar {
  double value;
  double before;  ///< of the lesson before, where that was more; else 0
};

class Counts {
 public:
  explicit Counts(std::vector<LessonCost> costs) : costs_(std::move(costs)) {
    double widest = 0;
    for (const LessonCost& row : costs_) {
      widest = std::max(widest, width_of(row.lesson, kSlugSize));
    }
    first_panel_ = kLeft + widest + 8;
    const double panels = static_cast<double>(kQuantities.size());
    panel_ = (kCanvasWidth - kRight - first_panel_ - kGap * (panels - 1)) / panels;
    row_ = std::min(kTallest, (kTop - kBottom) / static_cast<double>(costs_.size()));
  }

  std::vector<Series> data() const {
    std::vector<Series> data;
    for (const Quantity& quantity : kQuantities) {
      for (Series& series : series_of(quantity)) data.push_back(std::move(series));
    }
    return data;
  }

  std::string commands(const Theme& theme, const TraceRow& example) const {
    std::string text =
        "set multiplot\n" +
        draw_title(
            theme,
            fmt::format(
                "What a row costs, counted on the CPU device: {}, {} columns", example.regime,
                example.hidden),
            "a launch's total, divided by its rows; pale: how much more the lesson before needed");
    for (std::size_t i = 0; i < costs_.size(); ++i) text += draw_row(theme, i);
    for (std::size_t i = 0; i < kQuantities.size(); ++i) text += draw_panel(theme, i);
    return text + "unset multiplot";
  }

 private:
  std::vector<Bar> bars(const Quantity& quantity) const {
    std::vector<Bar> bars;
    double before = 0;
    for (const LessonCost& row : costs_) {
      Bar bar{quantity.of(row.cost), 0};
      if (!is_foil(row.lesson)) {
        if (is_more(before, bar.value)) bar.before = before;
        before = bar.value;
      }
      bars.push_back(bar);
    }
    return bars;
  }

  /// In the order in which they are drawn, without empty ones.
  std::vector<Series> series_of(const Quantity& quantity) const {
    const std::string name = quantity.name;
    Series before{name + "_before", {}};
    Series lessons{name, {}};
    Series foils{name + "_foils", {}};
    const std::vector<Bar> all = bars(quantity);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto at = static_cast<double>(i);
      if (all[i].before > 0) before.points.emplace_back(at, all[i].before);
      (is_foil(costs_[i].lesson) ? foils : lessons).points.emplace_back(at, all[i].value);
    }
    std::vector<Series> found;
    for (Series& series : std::array{before, lessons, foils}) {
      if (!series.points.empty()) found.push_back(std::move(series));
    }
    return found;
  }

  double middle_of(std::size_t row) const { return kTop - row_ * (static_cast<double>(row) + 0.5); }

  std::string draw_row(const Theme& theme, std::size_t i) const {
    const double above = kTop - row_ * static_cast<double>(i);
    const bool foil = is_foil(costs_[i].lesson);
    return draw(Line{
               .x1 = kLeft,
               .y1 = above,
               .x2 = kCanvasWidth - kRight,
               .y2 = above,
               .colour = theme.grid}) +
           draw(Text{
               .text = costs_[i].lesson,
               .x = kLeft,
               .y = middle_of(i),
               .colour = foil ? theme.muted : theme.text,
               .size = kSlugSize});
  }

  std::string draw_panel(const Theme& theme, std::size_t index) const {
    const Quantity& quantity = kQuantities[index];
    const std::vector<Bar> all = bars(quantity);
    double longest = 0;
    double widest_number = 0;
    for (const Bar& bar : all) {
      longest = std::max({longest, bar.value, bar.before});
      widest_number = std::max(widest_number, width_of(number(bar.value), kNumberSize));
    }
    if (longest == 0) longest = 1;

    const double left = first_panel_ + static_cast<double>(index) * (panel_ + kGap);
    const double rows = static_cast<double>(costs_.size());
    const Plane plane(
        {.left = left,
         .right = left + panel_ - kNumberGap - widest_number,
         .bottom = kTop - rows * row_,
         .top = kTop},
        {0, longest}, {rows - 0.5, -0.5});

    std::string text =
        plane.commands(theme) +
        "unset border\nunset ytics\nunset grid\nset style fill solid noborder\n" +
        draw(Text{
            .text = quantity.title,
            .x = left,
            .y = kTop + 36,
            .colour = theme.text,
            .size = 13,
            .bold = true}) +
        draw(Text{.text = quantity.unit, .x = left, .y = kTop + 17, .colour = theme.muted});
    for (std::size_t i = 0; i < all.size(); ++i) {
      text += draw(Text{
          .text = number(all[i].value),
          .x = end_for_number(plane, all[i]) + kNumberGap,
          .y = middle_of(i),
          .colour = theme.text,
          .size = kNumberSize,
          .bold = all[i].before > 0});
    }
    text += draw(Line{
        .x1 = left,
        .y1 = plane.frame().bottom + 4,
        .x2 = left,
        .y2 = kTop - 4,
        .colour = theme.muted});
    text += "plot NaN";
    for (const Series& series : series_of(quantity)) {
      text += fmt::format(
          ", ${} using 2:1:(0):2:($1-{}):($1+{}) with boxxyerror linecolor rgb '{}'", series.name,
          kHalfBar, kHalfBar, colour_of(theme, series.name));
    }
    // The next panel has texts of its own.
    return text + "\nunset label\nunset arrow\n";
  }

  /// The end of the bar or, where the number would reach over the end of the pale one, of that.
  static double end_for_number(const Plane& plane, const Bar& bar) {
    const double end = plane.x(bar.value);
    const double end_before = plane.x(bar.before);
    const double needed = width_of(number(bar.value), kNumberSize) + 2 * kNumberGap;
    return end_before - end < needed ? std::max(end, end_before) : end;
  }

  static const std::string& colour_of(const Theme& theme, const std::string& series) {
    if (series.ends_with("_before")) return theme.grid;
    return series.ends_with("_foils") ? theme.foil : theme.bar;
  }

  std::vector<LessonCost> costs_;
  double first_panel_ = 0;
  double panel_ = 0;  ///< a panel's width, with its numbers
  double row_ = 0;    ///< a row's height
};

void require_unique(const std::filesystem::path& file, const std::vector<TraceRow>& trace) {
  std::set<std::tuple<
      std::string, std::string, std::int64_t, int, std::string, int, std::string, std::string, int>>
      seen;
  for (const TraceRow& row : trace) {
    const LineCount& c = row.count;
    if (seen.emplace(
                row.lesson, row.regime, row.rows, row.hidden, c.file, c.line, c.kind, c.what,
                c.bytes)
            .second) {
      continue;
    }
    throw std::runtime_error(fmt::format(
        "{}: {} in {} has two counts of {} at {}:{}", file.string(), row.lesson, row.regime, c.kind,
        c.file, c.line));
  }
}

/// A chart has one title for all lessons, and one launch for each.
void require_one_shape(const std::filesystem::path& file, const std::vector<TraceRow>& trace) {
  std::map<std::string, int> hidden_of;
  std::map<std::pair<std::string, std::string>, std::int64_t> rows_of;
  for (const TraceRow& row : trace) {
    if (is_sweep(row.regime)) continue;
    if (hidden_of.emplace(row.regime, row.hidden).first->second == row.hidden &&
        rows_of.emplace(std::pair(row.lesson, row.regime), row.rows).first->second == row.rows) {
      continue;
    }
    throw std::runtime_error(
        fmt::format("{}: there are launches of different shapes in {}", file.string(), row.regime));
  }
}

}  // namespace

std::vector<TraceRow> load_trace(const std::filesystem::path& file) {
  std::vector<TraceRow> trace = read_trace(file);
  if (trace.empty()) throw std::runtime_error(fmt::format("{}: no counts", file.string()));
  for (const TraceRow& row : trace) {
    if (row.rows >= 1 && row.hidden >= 1) continue;
    throw std::runtime_error(fmt::format(
        "{}: a count of {} has {} rows of {} columns", file.string(), row.lesson, row.rows,
        row.hidden));
  }
  // One chart compares launches with fp32 tensors: others have their type behind the regime.
  std::erase_if(
      trace, [](const TraceRow& row) { return row.regime.find(' ') != std::string::npos; });
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

std::vector<LessonCost> row_costs(
    const std::vector<TraceRow>& trace, const std::string& regime, Foils foils) {
  std::map<std::string, RowCost> costs;
  for (const TraceRow& row : trace) {
    if (row.regime != regime || (foils == Foils::left_out && is_foil(row.lesson))) continue;
    add(row.count, row.rows, costs[row.lesson]);
  }
  std::vector<LessonCost> sorted;
  for (const auto& [lesson, cost] : costs) sorted.push_back({lesson, cost});
  return sorted;
}

Chart counts_chart(const std::vector<TraceRow>& trace, const std::string& regime, Foils foils) {
  const auto example = std::find_if(
      trace.begin(), trace.end(), [&](const TraceRow& row) { return row.regime == regime; });
  const std::vector<LessonCost> costs = row_costs(trace, regime, foils);
  if (costs.empty()) throw std::runtime_error(fmt::format("nothing was counted in '{}'", regime));
  const Counts counts(costs);
  return {counts.data(), [counts, example = *example](const Theme& theme) {
            return counts.commands(theme, example);
          }};
}

}  // namespace rmsnorm::plots
