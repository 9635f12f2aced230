/// \file
/// Watches a program that has a main() of its own, from its first line to its last, and says at the
/// end what was wrong: cpu_device_add_program() links it in. The environment says how:
///
///     CPU_DEVICE_ORDER=2       the order in which blocks and threads run: 0 is the usual one
///     CPU_DEVICE_USUAL=blocks  as in order 0: some of blocks, threads, values (not old ones),
///                              streams, turns
///     CPU_DEVICE_TURNS=5,9     turns end at an atomic operation from the sixth to the ninth time
///     CPU_DEVICE_STEPS=10000   more places in the code are taken for a loop that never ends
///     CPU_DEVICE_TRACE=1       what each line has asked of memory
///     CPU_DEVICE_REPORT=FILE   where to write it; without, to stderr
///
/// The report has a line for each mistake, one that begins with "note" for what relies on more
/// than CUDA promises, one that begins with "old" for each load that got an old value, "turns 20",
/// how often another block could have gone on at an atomic operation, and a "turn" for each of the
/// first times that one did. It ends in "exit 3", the program's status. Without CPU_DEVICE_REPORT,
/// it has mistakes alone, and a program that makes one ends with 1.

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/base/exit_code.hpp"
#include "common/cpu_device/interface/coverage.hpp"
#include "common/cpu_device/interface/watching.hpp"

namespace {

using namespace rmsnorm;

std::string variable(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::string row_of(const LineCount& line) {
  std::string row = fmt::format(
      "trace {}:{}: {}{}{}, {} requests", line.file, line.line, line.kind,
      line.what.empty() ? "" : " of ", line.what, line.requests);
  if (line.sectors > 0) row += fmt::format(", {} sectors", line.sectors);
  if (line.wavefronts > 0) row += fmt::format(", {} wavefronts", line.wavefronts);
  if (line.conflicts > 0) row += fmt::format(", {} of them for bank conflicts", line.conflicts);
  return row + "\n";
}

/// What was seen until now.
std::string report_of_mistakes() {
  std::string report;
  for (const std::string& mistake : take_hazards()) report += mistake + "\n";
  const std::string refused = take_failed_call();
  if (report.empty() && !refused.empty() && cudaPeekAtLastError() != cudaSuccess) {
    // A launch returns nothing that somebody may have looked at.
    const bool is_launch = refused.find(": the launch of ") != refused.npos;
    report = fmt::format(
        "{}{}. It did nothing, and nobody has looked at cudaGetLastError()\n",
        is_launch ? "" : "note ", refused);
  }
  return report;
}

/// What is no mistake.
std::string report_of_notes() {
  std::string report;
  for (const std::string& note : take_notes()) report += "note " + note + "\n";
  for (const std::string& load : take_old_loads()) report += "old " + load + "\n";
  for (const std::string& turn : first_turns()) report += "turn " + turn + "\n";
  return report + fmt::format("turns {}\n", possible_turns());
}

/// Writes the report, and ends the program if that is wrong.
void write(const std::string& report, bool is_wrong) {
  std::fflush(stdout);
  const std::string file = variable("CPU_DEVICE_REPORT");
  std::FILE* const out = file.empty() ? stderr : std::fopen(file.c_str(), "w");
  if (out == nullptr) {
    fmt::print(stderr, "'{}' cannot be written\n", file);
    _exit(kBadUsage);
  }
  fmt::print(out, "{}", report);
  std::fflush(out);
  if (is_wrong && file.empty()) _exit(kLessonWrong);
}

void finish(int status) {
  cudaDeviceSynchronize();  // what nobody has waited for runs, too
  watch_host(false);
  const LaunchCounts counts = stop_watching();
  std::string report = report_of_mistakes();
  const bool is_wrong = !report.empty() && !report.starts_with("note ");
  if (!variable("CPU_DEVICE_REPORT").empty()) report += report_of_notes();
  if (!variable("CPU_DEVICE_TRACE").empty()) {
    for (const LineCount& line : counts.lines) report += row_of(line);
  }
  if (!variable("CPU_DEVICE_REPORT").empty()) report += fmt::format("exit {}\n", status);
  write(report, is_wrong);
}

void never_ends(const std::string& place) {
  const std::string where = place.empty() ? "" : " at " + place;
  const std::string notes = variable("CPU_DEVICE_REPORT").empty() ? "" : report_of_notes();
  write(report_of_mistakes() + fmt::format("a loop that never ends{}\n{}", where, notes), true);
  _exit(kLessonWrong);
}

RunOrder order() {
  RunOrder order = run_order(std::atoi(variable("CPU_DEVICE_ORDER", "0").c_str()));
  const std::string usual = variable("CPU_DEVICE_USUAL");
  const auto is_usual = [&](const char* part) { return usual.find(part) != usual.npos; };
  if (is_usual("blocks")) order.blocks = 0;
  if (is_usual("threads")) order.threads = 0;
  if (is_usual("values")) order.old_values = false;
  if (is_usual("streams")) order.eager_streams = false;
  if (is_usual("turns")) order.turn_until = 0;
  std::sscanf(
      variable("CPU_DEVICE_TURNS").c_str(), "%" SCNu64 ",%" SCNu64, &order.turn_from,
      &order.turn_until);
  return order;
}

void begin() {
  say_before_crash(variable("CPU_DEVICE_BEFORE_CRASH"));
  change_order(order(), nullptr);
  start_watching({});
  static const StepLimit limit(
      std::strtoull(variable("CPU_DEVICE_STEPS", "0").c_str(), nullptr, 10), never_ends);
  watch_host(true);
}

}  // namespace

// The linker lets these be called for main() and exit(): nothing that they use is destroyed yet.
extern "C" {
int __real_main(int argc, char** argv, char** environment);
[[noreturn]] void __real_exit(int status);
[[noreturn]] void __real_quick_exit(int status);

int __wrap_main(int argc, char** argv, char** environment) {
  begin();
  const int status = __real_main(argc, argv, environment);
  finish(status);
  return status;
}

void __wrap_exit(int status) {
  finish(status);
  __real_exit(status);
}

void __wrap_quick_exit(int status) {
  finish(status);
  __real_quick_exit(status);
}
}
