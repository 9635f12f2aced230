/// \file
/// The recorded counts in plots/data, from which charts are drawn: they are those of the lessons as
/// they are now.

#include <algorithm>
#include <filesystem>
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

const std::string kAll = "all_lessons";

/// The lines of a trace file without its version and its date, of one lesson or of all.
std::vector<std::string> counts_in(const fs::path& file, const std::string& lesson) {
  std::vector<TraceRow> rows = read_trace(file);
  if (lesson != kAll)
    std::erase_if(rows, [&](const TraceRow& row) { return row.implementation != lesson; });
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
void check_counts(const std::string& lesson) {
  if (!can_watch()) SKIP_TEST("this build cannot watch kernels");
  const fs::path recorded = tests::top() / "plots/data/cpu-device-trace.csv";
  const fs::path build = fs::path(RMSNORM_LESSONS_DIR).parent_path();
  const tests::TemporaryFolder folder;
  const fs::path now = folder / "trace.csv";
  const tests::Finished finished =
      tests::run({(build / "lessons" / lesson).string(), "--trace-csv", now.string()});
  INFO(finished.err);
  REQUIRE(finished.exit_code == kAllVerified);

  INFO(
      "If the lessons changed, commit them, build, and record and draw again:\n  "
      << (build / "lessons" / kAll).string() << " --trace-csv " << recorded.string() << "\n  "
      << (build / "plots/plot_charts").string() << " --trace " << recorded.string() << " --out "
      << (tests::top() / "plots/charts").string());
  const std::vector<std::string> were = counts_in(recorded, lesson);
  REQUIRE(were.size() > 1);  // the head alone: nothing was recorded
  CHECK(first_difference(were, counts_in(now, lesson)) == "none");
}

}  // namespace

TEST_CASE("the recorded counts are what the CPU device counts now", "[whole]") {
  check_counts(kAll);
}

TEST_CASE("of lesson 04 the recorded counts are what the CPU device counts now") {
  check_counts("04_warp_reduce");
}
