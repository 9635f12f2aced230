/// \file
/// The recorded counts in plots/data, from which charts are drawn: they are those of the lessons as
/// they are now.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/base/exit_code.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/programs/options.hpp"
#include "common/records/trace_csv.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace rmsnorm;

namespace {

/// The lines of a trace file without its version and its date, of some rows.
std::vector<std::string> counts_in(
    const fs::path& file, const std::function<bool(const TraceRow&)>& is_asked) {
  std::vector<TraceRow> rows = read_trace(file);
  std::erase_if(rows, [&](const TraceRow& row) { return !is_asked(row); });
  for (TraceRow& row : rows) row.version = row.date = "";
  const tests::TemporaryFolder folder;
  write_trace(folder / "counts.csv", rows);
  return tests::lines_of(folder / "counts.csv");
}

std::string first_difference(
    const std::vector<std::string>& recorded, const std::vector<std::string>& now) {
  const auto [was, is] = std::mismatch(recorded.begin(), recorded.end(), now.begin(), now.end());
  if (was == recorded.end() && is == now.end()) return "none";
  return "recorded: " + (was == recorded.end() ? "no more lines" : *was) +
         "\nnow:      " + (is == now.end() ? "no more lines" : *is);
}

/// Runs a lesson's program, or that of all: it has to count what was recorded.
void check_counts(const std::string& name, const std::function<bool(const TraceRow&)>& is_asked) {
  const fs::path recorded = tests::top() / "plots/data/cpu-device-trace.csv";
  const fs::path build = fs::path(RMSNORM_LESSONS_DIR).parent_path();
  const tests::TemporaryFolder folder;
  const fs::path now = folder / "trace.csv";
  const tests::Finished finished =
      tests::run({(build / "lessons" / name).string(), "--trace-csv", now.string()});
  INFO(finished.err);
  REQUIRE(finished.exit_code == kAllVerified);

  INFO(
      "If the lessons changed, commit them, build, and record and draw again:\n  "
      << (build / "lessons/all_lessons").string() << " --trace-csv " << recorded.string() << "\n  "
      << (build / "plots/plot_charts").string() << " --trace " << recorded.string() << " --out "
      << (tests::top() / "plots/charts").string());
  const std::vector<std::string> were = counts_in(recorded, is_asked);
  REQUIRE(were.size() > 1);  // the head alone: nothing was recorded
  CHECK(first_difference(were, counts_in(now, is_asked)) == "none");
}

}  // namespace

TEST_CASE("the recorded counts are what the CPU device counts now", "[whole]") {
  if (!can_watch()) SKIP_TEST("this build cannot watch kernels");
  check_counts("all_lessons", [](const TraceRow&) { return true; });
}

TEST_CASE("of lesson 04 the recorded counts are what the CPU device counts now") {
  if (!can_watch()) SKIP_TEST("this build cannot watch kernels");
  const std::string lesson = "04_warp_reduce";
  check_counts(lesson, [&](const TraceRow& row) { return row.implementation == lesson; });
}
