#include "common/programs/output.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>

#include "common/base/device.hpp"
#include "common/base/files.hpp"
#include "common/base/terminal.hpp"
#include "common/programs/report.hpp"
#include "common/programs/schedule.hpp"
#include "common/programs/table.hpp"
#include "common/programs/trace_report.hpp"
#include "common/records/csv.hpp"

namespace rmsnorm {

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

Output::Output(const Options& options) : options_(options) {
  for (const std::string& file : {options.csv_file, options.trace_file}) {
    if (!file.empty()) require_writable(file);
  }
}

void Output::add(const Finding& finding) {
  const Result& result = finding.result;
  results_.push_back(result);
  std::string message = finding.hazards.empty() ? finding.remark : "the CPU device saw:";
  for (const std::string& hazard : finding.hazards) message += "\n  " + hazard;
  const bool is_wrong = result.verdict == Verdict::fail;
  if (is_wrong && !said_.insert({result.implementation, message}).second) message = "as above";
  const std::string line = result_line(result, message, wants_colour(STDOUT_FILENO));
  if (is_wrong) {
    wrong_.push_back(line);
  } else if (options_.verbose) {
    print(line);
  }
  const std::pair known(result.implementation, finding.remark);
  if (result.verdict == Verdict::unsupported &&
      std::ranges::find(unsupported_, known) == unsupported_.end()) {
    unsupported_.push_back(known);
  }
}

void Output::add_note(std::string note) {
  notes_.push_back(std::move(note));
}

void Output::add(const Watched& launch) {
  watched_.push_back(launch);
}

void Output::save() const {
  if (!options_.csv_file.empty() && !results_.empty()) write_csv(options_.csv_file, results_);
  if (options_.trace_file.empty() || watched_.empty()) return;
  std::vector<TraceRow> counts;
  for (const Watched& launch : watched_) {
    for (const LineCount& count : launch.counts.lines) {
      counts.push_back(
          {.operation = launch.operation,
           .implementation = launch.implementation,
           .regime = launch.regime,
           .dtype = to_string(launch.types),
           .rows = launch.rows,
           .hidden = launch.hidden,
           .sizes = launch.sizes,
           .blocks = launch.counts.blocks,
           .count = count,
           .version = build_commit(),
           .date = date_});
    }
  }
  write_trace(options_.trace_file, counts);
}

/// Prints lines on stdout that are no wider than the terminal.
void Output::print(std::string_view text) const {
  end_progress();
  fmt::print("{}\n", wrapped(text, width_of(STDOUT_FILENO)));
  std::fflush(stdout);
}

void Output::print_end() const {
  end_progress();
  const auto table = options_.summary ? run_table : result_table;
  const std::string text = table(results_, watched_, wants_colour(STDOUT_FILENO));
  fmt::print("{}", text);
  if (text.find(kAsPredicted) != text.npos) {
    print(fmt::format("{} as the kernel predicts", kAsPredicted));
  }
  std::vector<std::string> notes = notes_;
  notes.insert(notes.begin(), fewer_rows());
  notes.push_back(unsupported());
  for (const std::string& note : notes) {
    if (!note.empty()) print(note);
  }
  if (options_.summary) print(tally(results_));
  if (options_.trace) print_traces();
  if (wrong_.empty()) return;
  print("");
  for (const std::string& line : wrong_) print(line);
  print("\n" + what_is_wrong());
}

/// That a regime's problem is smaller here, by the example that is smallest; or "".
std::string Output::fewer_rows() const {
  const Result* least = nullptr;
  int rows = 0;  // of the regime
  for (const Result& result : results_) {
    for (const Regime& regime : options_.regimes) {
      if (regime.name != result.regime || regime.shapes.size() != 1) continue;
      if (result.rows >= regime.shapes[0].rows) continue;
      if (least != nullptr && result.rows * rows >= least->rows * regime.shapes[0].rows) continue;
      least = &result;
      rows = regime.shapes[0].rows;
    }
  }
  if (least == nullptr) return "";
  return fmt::format(
      "the {} does fewer rows: {} x {} stands for {} x {}",
      least->device == "cpu" ? "CPU" : least->device, least->rows, least->hidden, rows,
      least->hidden);
}

/// Why kernels do not support problems; of very many kernels, which they are. Or "".
std::string Output::unsupported() const {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> names, reasons;
  for (const auto& [name, reason] : unsupported_) {
    if (std::ranges::count(names, name) == 0) names.push_back(name);
    if (std::ranges::count(reasons, reason) == 0) reasons.push_back(reason);
  }
  if (reasons.empty()) return "";
  return reasons.size() <= kMost
             ? fmt::format("unsupported: {}", fmt::join(reasons, "\nunsupported: "))
             : fmt::format(
                   "not every problem is supported by {}: --verbose shows why",
                   fmt::join(names, ", "));
}

/// One line with every wrong kernel.
std::string Output::what_is_wrong() const {
  std::map<std::string, std::vector<std::string>> regimes_of;
  for (const Result& result : results_) {
    if (result.verdict != Verdict::fail) continue;
    std::vector<std::string>& regimes = regimes_of[result.implementation];
    if (regimes.empty() || regimes.back() != result.regime) regimes.push_back(result.regime);
  }
  std::string line;
  for (const auto& [implementation, regimes] : regimes_of) {
    line += fmt::format(
        "{}{} in {}", line.empty() ? "wrong: " : "; ", implementation, fmt::join(regimes, ", "));
  }
  return line + " (see above)";
}

/// What each line costs: in the problems that the reader has chosen, or in each lesson's own
/// regime.
void Output::print_traces() const {
  if (watched_.empty()) return;
  for (const Watched& launch : watched_) {
    const bool is_chosen = !options_.types.empty() || launch.types == Types{};
    if (is_chosen && (options_.trace_all || is_own_regime(launch))) {
      fmt::print("{}", line_table(launch, width_of(STDOUT_FILENO)));
    }
  }
  fmt::print("{}", kLineTableLegend);
  if (!options_.trace_all) {
    print("each lesson is traced in its own regime; --regime NAME or --regime all shows others");
  }
}

/// Whether a launch was in its lesson's own regime, or in one that is the same small problem.
bool Output::is_own_regime(const Watched& launch) const {
  for (const Implementation& implementation : options_.implementations) {
    if (implementation.slug != launch.implementation) continue;
    if (implementation.operation->name != launch.operation) continue;
    for (const Regime& regime : options_.regimes) {
      if (regime.name != implementation.regime) continue;
      const Shape shape =
          shape_here(options_, *implementation.operation, regime, regime.shapes.at(0));
      return launch.rows == shape.rows && launch.hidden == shape.hidden;
    }
  }
  return true;  // a lesson about no speed has no regime of its own
}

}  // namespace rmsnorm
