/// \file
/// The programs on the CPU device, as a user without a GPU meets them.

#include <algorithm>
#include <string>
#include <vector>

#include "common/contract/registry.hpp"
#include "common/programs/options.hpp"
#include "common/records/csv.hpp"
#include "common/records/trace_csv.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::Finished;

namespace {

Finished run_all_lessons(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(RMSNORM_LESSONS_DIR) + "/all_lessons");
  return tests::run(arguments);
}

}  // namespace

TEST_CASE("the CPU device verifies every lesson and never prints a time or a bandwidth") {
  const tests::TemporaryFolder folder;
  const std::string file = (folder / "results.csv").string();
  const Finished finished = run_all_lessons({"--rows", "33", "--hidden", "1000", "--csv", file});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.err, contains("CPU device"));
  for (const std::string& text : {finished.out, finished.err}) {
    for (const char* unit : {"GB/s", " us ", "of copy"}) CHECK_THAT(text, !contains(unit));
  }
  const std::vector<Result> results = read_csv(file);
  CHECK(results.size() == all_lessons().size());
  for (const Result& result : results) {
    CAPTURE(result.lesson);
    CHECK(result.verdict == "pass");
    CHECK_FALSE(result.median_us.has_value());
    CHECK_FALSE(result.gbps.has_value());
    CHECK_FALSE(result.copy_gbps.has_value());
    CHECK_FALSE(result.peak_gbps.has_value());
  }
}

TEST_CASE("the CPU device makes the regimes small and does each shape once") {
  const Finished finished = run_all_lessons(
      {"--lesson", "4", "--regime", "prefill", "--regime", "batch", "--regime", "decode"});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.out, contains("32 x 4096") && contains("16 x 4096"));
  CHECK_THAT(finished.err, contains("batch is the same small problem as prefill here: 32 x 4096"));
}

TEST_CASE("a row's cost is printed beside what the lesson predicts") {
  if (!can_observe()) SKIP_TEST("this build cannot watch kernels");
  const Finished finished =
      run_all_lessons({"--lesson", "04_warp_reduce", "--rows", "32", "--hidden", "4096"});
  CHECK_THAT(
      finished.out, contains("What a row costs: custom, 32 x 4096") && contains("predicted"));
  const std::vector<std::string> lines = tests::lines_in(finished.out);
  REQUIRE_FALSE(lines.empty());
  // x and the weight read once, y written once; a wavefront for every 32 columns, both ways, and
  // the warps' sums; 2 barriers; 5 shuffles for each of 8 warps and once more for their sums.
  CHECK_THAT(
      lines.back(),
      Catch::Matchers::Matches("04_warp_reduce +32768 +32768 +16384 +16384 +274 +2 +45"));
}

TEST_CASE("the trace shows each line of the lesson and the file says the same") {
  if (!can_observe()) SKIP_TEST("this build cannot watch kernels");
  const tests::TemporaryFolder folder;
  const std::string file = (folder / "trace.csv").string();
  const Finished finished = run_all_lessons(
      {"--lesson", "02_naive/thread_per_row", "--lesson", "03_shared_memory", "--rows", "64",
       "--hidden", "512", "--trace", "--trace-csv", file});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(
      finished.out, contains("lessons/03_shared_memory/rms_norm.cu") &&
                        contains("staged[col] = value;") && contains("__syncthreads();"));
  const std::vector<TraceRow> rows = read_trace(file);
  REQUIRE_FALSE(rows.empty());
  bool has_uncoalesced = false;
  for (const TraceRow& row : rows) {
    CAPTURE(row.lesson, row.count.line, row.count.kind);
    CHECK(row.rows == 64);
    CHECK(row.hidden == 512);
    CHECK(row.count.requests > 0);
    // Each line that was counted is a line of the file.
    const std::vector<std::string> source = tests::lines_of(tests::top() / row.count.file);
    REQUIRE(row.count.line <= static_cast<int>(source.size()));
    if (row.count.kind == "barrier") {
      CHECK_THAT(source[row.count.line - 1], contains("__syncthreads()"));
    }
    has_uncoalesced =
        has_uncoalesced || (row.lesson == "02_naive/thread_per_row" && row.count.what == "x" &&
                            row.count.sectors == 32 * row.count.requests);
  }
  CHECK(has_uncoalesced);
}

TEST_CASE("a lesson that needs what only a GPU has is skipped by name and says why") {
  const Finished finished =
      tests::run({RMSNORM_NEEDS_GPU_PROGRAM, "--rows", "3", "--hidden", "100"});
  CHECK(finished.exit_code == kAllVerified);
  CHECK(tests::lines_in(finished.out).size() == 1);
  CHECK_THAT(
      finished.out, contains("98_tensor_cores") && contains("REFUSED") &&
                        contains("needs a GPU: ") && contains("needs_gpu.cu:2: ") &&
                        contains("the CPU device has no <mma.h>"));
}

TEST_CASE("where nothing can be timed a prediction is graded by the recorded results") {
  const std::string recorded = (tests::top() / "plots/data/nvidia-h200.csv").string();
  const Finished finished =
      run_all_lessons({"--lesson", "4", "--predict", "1.3", "--recorded", recorded});
  CHECK(finished.exit_code == kAllVerified);
  const std::vector<std::string> lines = tests::lines_in(finished.out);
  REQUIRE(lines.size() > 6);
  // Both kernels are verified here, in this regime and no other; only the grade has times.
  CHECK_THAT(lines[0], contains("03_shared_memory ") && contains("PASS"));
  CHECK_THAT(lines[1], contains("04_warp_reduce ") && contains("PASS"));
  CHECK_THAT(lines[2], !contains("PASS"));
  const auto head = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("04_warp_reduce after 03_shared_memory in decode, 16 x 4096, ");
  });
  REQUIRE(lines.end() - head == 4);
  CHECK_THAT(*head, contains("recorded: NVIDIA H200, commit "));
  CHECK_THAT(head[1], Catch::Matchers::StartsWith("decode, cold   you said 1.3 x, measured "));
  CHECK_THAT(head[2], Catch::Matchers::StartsWith("decode, warm   you said 1.3 x, measured "));
  CHECK_THAT(head[3], contains("lessons/04_warp_reduce/README.md"));
  for (auto line = lines.begin(); line != head; ++line) CHECK_THAT(*line, !contains(" us "));
}

TEST_CASE("a prediction that nothing can grade is turned down before anything runs") {
  const tests::TemporaryFolder folder;
  const std::string none = (folder / "none.csv").string();
  const std::string others = (folder / "others.csv").string();
  write_csv(others, {});
  struct Mistake {
    std::vector<std::string> arguments;
    std::string named;
  };
  for (const Mistake& mistake : std::vector<Mistake>{
           {{}, "--recorded"},
           {{"--recorded", none}, none},
           {{"--recorded", others}, others + ": there is no result of 04_warp_reduce in decode"}}) {
    CAPTURE(mistake.named);
    std::vector<std::string> arguments = {"--lesson", "4", "--predict", "2"};
    arguments.insert(arguments.end(), mistake.arguments.begin(), mistake.arguments.end());
    const Finished finished = run_all_lessons(arguments);
    CHECK(finished.exit_code == kBadUsage);
    CHECK(finished.out == "");
    CHECK_THAT(tests::lines_in(finished.err).back(), contains(mistake.named));
  }
}

TEST_CASE("a lesson's own program cannot know its predecessor and says who does") {
  const Finished finished = tests::run(
      {std::string(RMSNORM_LESSONS_DIR) + "/06_float4", "--predict", "2", "--recorded", "x.csv"});
  CHECK(finished.exit_code == kBadUsage);
  CHECK_THAT(finished.err, contains("06_float4: ./rmsnorm lesson N --predict"));
}

TEST_CASE("a prediction about a wrong kernel is not graded") {
  const tests::TemporaryFolder folder;
  const std::string file = (folder / "results.csv").string();
  std::vector<Result> results;
  for (const char* cache : {"cold", "warm"}) {
    for (const char* lesson : {"99_on_gpu/foil", "99_on_gpu"}) {
      Result result;
      result.lesson = lesson;
      result.regime = "decode";
      result.cache = cache;
      result.median_us = 1;
      result.verdict = "pass";
      results.push_back(result);
    }
  }
  write_csv(file, results);
  const Finished finished =
      tests::run({RMSNORM_WRONG_PROGRAM, "--lesson", "99", "--predict", "2", "--recorded", file});
  CHECK(finished.exit_code == kLessonWrong);
  CHECK_THAT(finished.out, contains("99_on_gpu/foil") && contains("FAIL") && !contains("you said"));
  CHECK(tests::lines_in(finished.out).back() == "wrong: 99_on_gpu/foil in decode (see above)");
}

TEST_CASE("a mistake is told once and the output ends with what is wrong") {
  if (!can_observe()) SKIP_TEST("this build cannot watch kernels");
  const Finished finished =
      tests::run({RMSNORM_MISSING_BARRIERS_DIR "/02_naive_without_barrier_2"});
  CHECK(finished.exit_code == kLessonWrong);
  int told = 0;
  int as_above = 0;
  int right = 0;
  bool in_costs = false;
  const std::vector<std::string> lines = tests::lines_in(finished.out);
  for (const std::string& line : lines) {
    if (line.find(": a race: ") != line.npos) ++told;
    if (line.starts_with("02_naive ") && line.ends_with("FAIL  as above")) ++as_above;
    if (line.starts_with("02_naive/") && line.find("PASS") != line.npos) ++right;
    // The costs are those of the kernel that is right.
    in_costs = in_costs || line.starts_with("What a row costs: ");
    if (in_costs) CHECK_FALSE(line.starts_with("02_naive "));
  }
  CHECK(in_costs);
  CHECK(told == 1);
  CHECK(as_above == 3);
  CHECK(right == 4);
  CHECK(lines.back() == "wrong: 02_naive in prefill, decode, heads, wide (see above)");
}

TEST_CASE("another mistake of the same lesson is told in full") {
  if (!can_observe()) SKIP_TEST("this build cannot watch kernels");
  // In wide, the lesson takes another kernel, with more threads.
  const Finished finished =
      tests::run({RMSNORM_MISSING_BARRIERS_DIR "/07_multi_row_without_barrier_1"});
  CHECK_THAT(
      finished.out, contains("kernel rms_norm_multi_row<512>") &&
                        contains("kernel rms_norm_multi_row<1024>") && contains("FAIL  as above"));
}

TEST_CASE("a trace shows each lesson in its own regime unless another is asked for") {
  if (!can_observe()) SKIP_TEST("this build cannot watch kernels");
  const auto traced = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--lesson", "3", "--lesson", "4", "--trace"});
    std::string titles;
    for (const std::string& line : tests::lines_in(run_all_lessons(arguments).out)) {
      const std::size_t end = line.find(": what each line asks for");
      if (end != line.npos) titles += line.substr(0, end) + "; ";
    }
    return titles;
  };
  CHECK(
      traced({}) ==
      "03_shared_memory in prefill, 32 x 4096; 04_warp_reduce in decode, 16 x 4096; ");
  CHECK(
      traced({"--regime", "heads"}) ==
      "03_shared_memory in heads, 1024 x 128; 04_warp_reduce in heads, 1024 x 128; ");
  CHECK(
      traced({"--rows", "8"}) ==
      "03_shared_memory in custom, 8 x 4096; 04_warp_reduce in custom, 8 x 4096; ");
  CHECK_THAT(
      run_all_lessons({"--lesson", "4", "--trace"}).out, contains("--regime all shows others"));
  CHECK_THAT(
      run_all_lessons({"--lesson", "4", "--trace", "--regime", "heads"}).out,
      !contains("shows others"));
}

TEST_CASE("tensors have the types that were asked for and a lesson of fp32 refuses others") {
  const tests::TemporaryFolder folder;
  const std::string file = (folder / "results.csv").string();
  const Finished finished = run_all_lessons(
      {"--lesson", "4", "--lesson", "10", "--rows", "5", "--hidden", "100", "--dtype", "bf16/none",
       "--dtype", "fp32", "--csv", file});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.out, contains("REFUSED  04_warp_reduce knows fp32 alone: "));
  std::vector<std::string> found;
  for (const Result& result : read_csv(file)) {
    found.push_back(result.lesson + " " + result.dtype + " " + result.verdict);
  }
  CHECK(
      found == std::vector<std::string>{
                   "04_warp_reduce bf16/none refused", "10_half_precision bf16/none pass",
                   "04_warp_reduce fp32 pass", "10_half_precision fp32 pass"});
}

TEST_CASE("a regime is run in each type that a lesson knows") {
  const Finished finished =
      run_all_lessons({"--lesson", "4", "--lesson", "10", "--regime", "decode"});
  CHECK(finished.exit_code == kAllVerified);
  std::vector<std::string> found;
  for (const std::string& line : tests::lines_in(finished.out)) {
    if (line.find(" PASS ") != line.npos) found.push_back(line.substr(0, 42));
  }
  CHECK(
      found == std::vector<std::string>{
                   "04_warp_reduce              decode        ",
                   "10_half_precision           decode        ",
                   "10_half_precision           decode bf16   ",
                   "10_half_precision           decode fp16   "});
}
