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
  if (options_.summary && result.verdict != Verdict::fail) return;
  std::string message = finding.hazards.empty() ? finding.remark : "the CPU device saw:";
  for (const std::string& hazard : finding.hazards) message += "\n  " + hazard;
  if (result.verdict == Verdict::fail && !said_.insert({result.implementation, message}).second) {
    message = "as above";
  }
  end_progress();
  fmt::print("{}\n", result_line(result, message, wants_colour(STDOUT_FILENO)));
  std::fflush(stdout);
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
           .blocks = launch.counts.blocks,
           .count = count,
           .version = build_commit(),
           .date = date_});
    }
  }
  write_trace(options_.trace_file, counts);
}

void Output::print_end() const {
  end_progress();
  if (options_.summary) {
    const std::string table =
        is_cpu_device() ? cost_summary(right_ones()) : summary(without_variants(results_));
    fmt::print("{}{}\n", table, tally(results_));
    return;
  }
  if (const std::string table = summary(results_); !table.empty()) fmt::print("\n{}", table);
  if (options_.trace) print_traces();
  fmt::print("{}", cost_table(right_ones()));
}

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
  return line.empty() ? "" : line + " (see above)";
}

/// A wrong kernel's counts are of no interest, and would push its mistake out of sight.
std::vector<Watched> Output::right_ones() const {
  std::vector<Watched> launches = watched_;
  std::erase_if(launches, [&](const Watched& launch) {
    return std::any_of(results_.begin(), results_.end(), [&](const Result& r) {
      return r.implementation == launch.implementation && r.operation == launch.operation &&
             r.verdict == Verdict::fail;
    });
  });
  return launches;
}

/// What each line costs: in the problems that the reader has chosen, or in each lesson's own
/// regime.
void Output::print_traces() const {
  if (watched_.empty()) return;
  for (const Watched& launch : watched_) {
    const bool is_chosen = !options_.types.empty() || launch.types == Types{};
    if (is_chosen && (options_.trace_all || is_own_regime(launch))) {
      fmt::print("{}", line_table(launch));
    }
  }
  fmt::print("{}", kLineTableLegend);
  if (!options_.trace_all) {
    fmt::print(
        "Each lesson is traced in its own regime; --regime NAME or --regime all shows others.\n");
  }
}

/// Whether a launch was in its lesson's own regime, or in one that is the same small problem.
bool Output::is_own_regime(const Watched& launch) const {
  for (const Implementation& implementation : options_.implementations) {
    if (implementation.slug != launch.implementation) continue;
    if (implementation.operation->name != launch.operation) continue;
    for (const Regime& regime : options_.regimes) {
      if (regime.name != implementation.regime) continue;
      const Shape shape = shape_here(regime, regime.shapes.at(0));
      return launch.rows == shape.rows && launch.hidden == shape.hidden;
    }
  }
  return true;  // a lesson about no speed has no regime of its own
}

}  // namespace rmsnorm
