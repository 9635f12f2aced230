#include "common/programs/terminal_output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/base/device.hpp"
#include "common/base/terminal.hpp"
#include "common/programs/report.hpp"
#include "common/programs/trace_report.hpp"

namespace rmsnorm {

void TerminalOutput::add(const Finding& finding) {
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

void TerminalOutput::add(const Watched& launch) {
  watched_.push_back(launch);
}

void TerminalOutput::print_end() const {
  end_progress();
  if (options_.summary) {
    const std::string table = is_cpu_device() ? cost_summary(right_ones()) : summary(results_);
    fmt::print("{}{}\n", table, tally(results_));
    return;
  }
  if (const std::string table = summary(results_); !table.empty()) fmt::print("\n{}", table);
  if (options_.trace) print_traces();
  fmt::print("{}", cost_table(right_ones()));
}

std::string TerminalOutput::what_is_wrong() const {
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
std::vector<Watched> TerminalOutput::right_ones() const {
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
void TerminalOutput::print_traces() const {
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
bool TerminalOutput::is_own_regime(const Watched& launch) const {
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
