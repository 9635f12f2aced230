#include "common/programs/table.hpp"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/terminal.hpp"
#include "common/contract/regime.hpp"
#include "common/programs/report.hpp"
#include "common/programs/trace_report.hpp"
#include "common/records/row_cost.hpp"

namespace rmsnorm {
namespace {

using Cells = std::vector<std::string>;

/// The columns of what is counted.
const Cells kCosts = {"sectors", "requests", "wavefronts", "barriers", "shuffles"};

Cells joined(Cells cells, const Cells& more) {
  cells.insert(cells.end(), more.begin(), more.end());
  return cells;
}

/// What a row costs in a launch. Where rows fill no whole sectors, nothing was predicted.
Cells costs_of(const Watched& launch) {
  const RowCost cost = row_cost(launch.counts.lines, launch.rows);
  std::string sectors = number((cost.read + cost.written) / kSectorBytes);
  if (is_predicted(launch)) {
    const double predicted = (launch.predicted.read + launch.predicted.written) / kSectorBytes;
    sectors += difference_from_prediction(launch).empty()
                   ? fmt::format(" {}", kAsPredicted)
                   : fmt::format(" ({} predicted)", number(predicted));
  }
  return {
      sectors, number(cost.requests), number(cost.wavefronts), number(cost.barriers),
      number(cost.shuffles)};
}

Cells costs_of(const Watched* launch) {
  return launch == nullptr ? Cells(kCosts.size()) : costs_of(*launch);
}

const Watched* launch_of(const Result& r, const std::vector<Watched>& launches) {
  const auto found = std::ranges::find_if(launches, [&](const Watched& launch) {
    return launch.implementation == r.implementation && launch.operation == r.operation &&
           launch.regime == r.regime && to_string(launch.types) == r.dtype &&
           launch.rows == r.rows && launch.hidden == r.hidden && launch.sizes == r.sizes;
  });
  return found == launches.end() || r.verdict == Verdict::fail ? nullptr : &*found;
}

std::string percent(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}%", *value, digits) : "";
}

/// What was measured of a result, and of one on the host its error.
Cells measured(const Result& r) {
  const bool has_error = r.device == "cpu" && r.max_error && r.error_bound;
  return {
      r.median_us ? microseconds(*r.median_us) : "",
      percent(r.spread_pct, 1),
      r.gbps ? fmt::format("{:.0f}", *r.gbps) : "",
      percent(percent_of_roof(r), 0),
      has_error ? fmt::format("{:.1e}", *r.max_error) : "",
      has_error ? fmt::format("{:.1e}", *r.error_bound) : "",
      r.disturbed                            ? in_words(*r.disturbed)
      : r.spread_pct.value_or(0) > kNoisyPct ? "noisy"
                                             : ""};
}
const Cells kMeasured = {"time", "spread", "GB/s", "of roof", "error", "bound", ""};

std::string shape_text(std::int64_t rows, std::int64_t hidden) {
  return fmt::format("{} x {}", rows, hidden);
}

bool has_column(const Result& r) {
  return !is_sweep(r.regime) && r.regime != kCustomRegime && r.dtype != "fp16" && r.cache;
}

/// Behind what was disturbed.
constexpr const char* kMark = "*";

std::string time_or_share(const Result& r) {
  if (r.verdict == Verdict::unsupported) return "-";
  if (!r.median_us) return "";
  const std::string text =
      r.regime == kDecodeRegime ? microseconds(*r.median_us) : percent(percent_of_roof(r), 0);
  return r.disturbed ? text + kMark : text;
}

/// The place of a name in a list, to which it is added if it is not there.
template <class Name>
std::size_t place_in(std::vector<Name>& names, const Name& name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return found - names.begin();
  names.push_back(name);
  return names.size() - 1;
}

/// A line of the table of a run, in the making.
struct Line {
  std::string name;
  Verdict verdict = Verdict::unsupported;
  const Watched* launch = nullptr;             // the first
  std::map<std::size_t, std::string> times{};  // by the number of the column
};

/// The worst that is said of a kernel; that it supports nothing only if there is nothing else.
Verdict worse(Verdict a, Verdict b) {
  const auto rank = [](Verdict v) { return v == Verdict::fail ? 2 : v == Verdict::pass ? 1 : 0; };
  return rank(a) < rank(b) ? b : a;
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  rows_.push_back({std::move(cells), false});
  if (has_headings_) rows_.back().cells[0].insert(0, "  ");
}

void Table::add_names(std::vector<std::string> cells) {
  rows_.push_back({std::move(cells), true});
}

void Table::add_heading(const std::string& text) {
  rows_.push_back({{text}, true});
  has_headings_ = true;
}

std::string Table::text() const {
  std::vector<int> widths;  // 0: nothing is in this column
  for (const bool is_names : {false, true}) {
    for (const Row& row : rows_) {
      if (row.is_names != is_names) continue;
      widths.resize(std::max(widths.size(), row.cells.size()));
      // The names count where the column has something else; the first reaches over others.
      for (std::size_t i = is_names ? 1 : 0; i < row.cells.size(); ++i) {
        if (!is_names || widths[i] > 0) widths[i] = std::max(widths[i], columns_of(row.cells[i]));
      }
    }
  }
  // Between columns is one space, or two where they are flush right.
  const auto gap = [&](std::size_t i) { return i == 0 ? 0 : i < left_ ? 1 : 2; };
  int left = 0;  // the columns that the first of the names may reach over
  for (std::size_t i = 0; i < std::min(left_, widths.size()); ++i) {
    if (widths[i] > 0) left += gap(i) + widths[i];
  }
  for (const Row& row : rows_) {
    if (row.is_names && row.cells.size() > 1 && columns_of(row.cells[0]) > left) {
      widths[0] += columns_of(row.cells[0]) - left;
      left = columns_of(row.cells[0]);
    }
  }
  std::string all;
  for (const Row& row : rows_) {
    std::string line;
    int end = 0;  // of the columns until here
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const std::string& cell = row.cells[i];
      if (i > 0 && widths[i] == 0) continue;
      const int begin = end + gap(i);
      end = begin + widths[i];
      if (cell.empty()) continue;
      const int from = i < left_ ? begin : end - columns_of(cell);
      line += std::string(from - columns_of(line), ' ') + cell;
    }
    all += line + "\n";
  }
  return all;
}

std::string verdict_text(Verdict verdict, bool colour) {
  static const std::map<Verdict, std::pair<const char*, fmt::terminal_color>> kShown = {
      {Verdict::pass, {"PASS", fmt::terminal_color::green}},
      {Verdict::fail, {"FAIL", fmt::terminal_color::red}},
      {Verdict::unsupported, {"UNSUPPORTED", fmt::terminal_color::yellow}}};
  const auto& [text, shade] = kShown.at(verdict);
  return colour ? fmt::format(fmt::fg(shade), "{}", text) : text;
}

std::string result_table(
    const std::vector<Result>& results, const std::vector<Watched>& launches, bool colour) {
  if (results.empty()) return "";
  std::vector<std::string> kernels, operations;
  for (const Result& r : results) {
    place_in(kernels, r.implementation + " " + r.operation);
    place_in(operations, r.operation);
  }
  const bool is_one = kernels.size() == 1;
  Table table(4);
  std::string corner = is_one ? results[0].implementation : "";
  if (!launches.empty()) corner += is_one ? ", per row" : "per row";
  table.add_names(joined(joined({corner, "", "", ""}, kMeasured), kCosts));
  std::string heading;
  for (const Result& r : results) {
    const std::string regime = with_dtype(r.regime, r.dtype);
    const std::string here = fmt::format("{}, {}", regime, shape_text(r.rows, r.hidden)) +
                             (operations.size() > 1 ? ", " + r.operation : "");
    if (!is_one && here != heading) table.add_heading(here);
    heading = here;
    table.add(joined(
        joined(
            {is_one ? regime : r.implementation, is_one ? shape_text(r.rows, r.hidden) : "",
             cache_text(r), verdict_text(r.verdict, colour)},
            measured(r)),
        costs_of(launch_of(r, launches))));
  }
  return table.text();
}

std::string run_table(
    const std::vector<Result>& results, const std::vector<Watched>& launches, bool colour) {
  std::vector<std::string> operations;  // those of lessons or, where there are none, all
  for (const Result& r : results) {
    const bool is_own = is_lesson(r.implementation) && !is_variant(r.implementation);
    if (is_own) place_in(operations, r.operation);
  }
  const bool any_lesson = !operations.empty();
  std::vector<std::pair<std::string, std::string>> columns;  // regime, state of the cache
  std::map<std::size_t, std::vector<Line>> lines;            // by the number of the operation
  std::set<std::string> disturbed;
  for (const Result& r : results) {
    const bool is_wrong = r.verdict == Verdict::fail;
    const bool has_line = !is_variant(r.implementation) &&
                          (!any_lesson || std::ranges::count(operations, r.operation));
    if (!has_line && !is_wrong) continue;
    std::vector<Line>& here = lines[place_in(operations, r.operation)];
    const std::string name = r.cache ? with_dtype(r.implementation, r.dtype) : r.implementation;
    auto line = std::ranges::find(here, name, &Line::name);
    if (line == here.end()) line = here.insert(line, {.name = name});
    line->verdict = worse(line->verdict, r.verdict);
    if (line->launch == nullptr) line->launch = launch_of(r, launches);
    if (has_column(r)) {
      line->times[place_in(columns, {r.regime, cache_text(r)})] = time_or_share(r);
      if (r.disturbed) disturbed.insert(in_words(*r.disturbed));
    }
  }
  if (lines.empty()) return "";

  Cells regimes, caches;
  for (const auto& [regime, cache] : columns) {
    regimes.push_back(regime);
    caches.push_back(cache);
  }
  std::vector<std::string> shapes;  // of the launches that are shown
  for (const auto& [operation, of_operation] : lines) {
    for (const Line& line : of_operation) {
      if (line.launch) place_in(shapes, shape_text(line.launch->rows, line.launch->hidden));
    }
  }
  const std::string corner = !columns.empty()     ? "% of roof; decode: time"
                             : shapes.empty()     ? ""
                             : shapes.size() == 1 ? "per row, " + shapes[0]
                                                  : "per row";
  Table table(2);
  table.add_names(joined(joined({corner, ""}, regimes), kCosts));
  if (!columns.empty()) table.add_names(joined({"", ""}, caches));
  for (const auto& [operation, of_operation] : lines) {
    table.add_heading(operations[operation]);
    for (const Line& line : of_operation) {
      Cells times(columns.size());
      for (const auto& [column, text] : line.times) times[column] = text;
      const Watched* launch = line.verdict == Verdict::fail ? nullptr : line.launch;
      table.add(
          joined(joined({line.name, verdict_text(line.verdict, colour)}, times), costs_of(launch)));
    }
  }
  std::string text = table.text();
  if (!disturbed.empty()) {
    text += fmt::format("{} the GPU was {}\n", kMark, fmt::join(disturbed, " or "));
  }
  return text;
}

std::string cost_table(const std::vector<Watched>& launches) {
  if (launches.empty()) return "";
  Table table(1);
  table.add_names(joined({"per row"}, kCosts));
  for (const Watched& launch : launches) {
    table.add(joined(
        {with_dtype(shape_text(launch.rows, launch.hidden), to_string(launch.types))},
        costs_of(launch)));
  }
  return table.text();
}

}  // namespace rmsnorm
