/// \file
/// The programs on the CPU device, as a user without a GPU meets them.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/base/exit_code.hpp"
#include "common/contract/registry.hpp"
#include "common/cpu_device/device.hpp"
#include "common/records/csv.hpp"
#include "common/records/trace_csv.hpp"
#include "tests/command.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::Finished;
using tests::run_all_lessons;

namespace {

/// While it lives, nobody observes the device.
struct Unobserved {
  Unobserved() { device.grid.observe(nobody); }
  ~Unobserved() { device.grid.observe(device.watch); }

  rmsnorm::cpu_device::Device& device = rmsnorm::cpu_device::device();
  rmsnorm::cpu_device::Observer nobody;
};

}  // namespace

TEST_CASE("a device that nobody observes runs every lesson") {
  const Unobserved unobserved;
  tests::for_gpu_implementations(
      {.rows = 5, .hidden = 4096},  // too many for this to be watched
      [](const Implementation& implementation, const Workload& workload) {
        tests::solves_or_says_why(implementation, workload);
      });
}

TEST_CASE("the CPU device verifies every lesson and never prints a time or a bandwidth") {
  const tests::TemporaryFolder folder;
  const std::string file = folder / "results.csv";
  const Finished finished = run_all_lessons({"--rows", "33", "--hidden", "1000", "--csv", file});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.err, !contains("CPU device"));  // ./rmsnorm has said so
  for (const std::string& text : {finished.out, finished.err}) {
    for (const char* unit : {"GB/s", " us ", "of roof", "not timed"})
      CHECK_THAT(text, !contains(unit));
  }
  const std::vector<Result> results = read_csv(file);
  const auto all = all_implementations();
  CHECK(std::ssize(results) == std::count_if(all.begin(), all.end(), [](const Implementation& i) {
          return i.operation->takes(1000);  // others are left out
        }));
  for (const Result& result : results) {
    CAPTURE(result.implementation);
    const bool is_supported = !result.implementation.starts_with(tests::kOfLongRows) &&
                              !result.implementation.starts_with(tests::kOf16Bits);
    CHECK(result.verdict == (is_supported ? Verdict::pass : Verdict::unsupported));
    if (!is_supported) continue;
    CHECK_FALSE((result.median_us || result.gbps || result.roof_gbps || result.peak_gbps));
  }
}

TEST_CASE("the CPU device makes the regimes small and does each shape once") {
  const Finished finished = run_all_lessons(
      {"--lesson", "4", "--regime", "prefill", "--regime", "batch", "--regime", "decode"});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.out, contains("32 x 4096") && contains("16 x 4096"));
  CHECK_THAT(
      finished.out,
      contains("\nthe CPU device does fewer rows: 32 x 4096 stands for 262144 x 4096\n") &&
          contains("\nbatch is the same small problem as prefill here: 32 x 4096\n"));
  CHECK(finished.err == "");
}

TEST_CASE(
    "a lesson's program prints a line for each regime, and variants when they are asked for") {
  NEEDS_COUNTS();
  const std::string program = RMSNORM_LESSONS_DIR "/06_float4";
  const Finished lesson = tests::run({program});
  CHECK(lesson.exit_code == kAllVerified);
  const std::vector<std::string> lines = tests::lines_in(lesson.out);
  CHECK(lines.size() == 8);
  for (const std::string& line : lines) CHECK(tests::columns(line) <= 80);
  CHECK_THAT(lesson.out, contains("sectors  requests") && !contains("06_float4/"));
  const Finished all = tests::run({program, "--variants", "--regime", "decode"});
  CHECK_THAT(
      tests::on_one_line(all.out),
      contains(" decode, 16 x 4096 06_float4 PASS ") && contains(" 06_float4/512 PASS "));
}

TEST_CASE("a run prints one table of 40 lines and 100 columns at most, a line for each lesson") {
  NEEDS_COUNTS();
  const Finished finished = tests::run(
      {RMSNORM_LESSONS_DIR "/ladder", "--summary", "--regime", "decode", "--regime", "backward"});
  CHECK(finished.exit_code == kAllVerified);
  const std::vector<std::string> lines = tests::lines_in(finished.out);
  CHECK(lines.size() < 40);
  std::size_t right = 0;
  for (const std::string& line : lines) {
    CHECK(tests::columns(line) <= 100);
    right += line.find(" PASS") != line.npos;
  }
  CHECK(right == tests::lesson_folders().size() + 3);  // the library's forward, residual, backward
  CHECK_THAT(finished.out, !contains("/"));            // a variant's name has one
  CHECK_THAT(lines.back(), contains(" results: ") && contains(" pass, 0 fail, "));
}

TEST_CASE("the trace shows each line of the lesson and the file says the same") {
  NEEDS_COUNTS();
  const tests::TemporaryFolder folder;
  const std::string file = folder / "trace.csv";
  const Finished finished = run_all_lessons(
      {"--lesson", "02_naive/thread_per_row", "--lesson", "03_shared_memory", "--rows", "64",
       "--hidden", "512", "--trace", "--trace-csv", file});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(
      finished.out, contains("lessons/03_shared_memory/rms_norm.cu") &&
                        contains("staged[col] = value;") && contains("__syncthreads();"));
  const std::vector<TraceRow> rows = read_trace(file);
  REQUIRE_FALSE(rows.empty());
  for (const TraceRow& row : rows) {
    CAPTURE(row.implementation, row.count.line, row.count.kind);
    CHECK((row.rows == 64 && row.hidden == 512 && row.count.requests > 0));
    const std::vector<std::string> source = tests::lines_of(tests::top() / row.count.file);
    const std::string line = source.at(row.count.line - 1);
    if (row.count.kind == "barrier") CHECK_THAT(line, contains("__syncthreads()"));
  }
}

TEST_CASE("a lesson that needs what only a GPU has is skipped by name and says why") {
  const Finished finished =
      tests::run({RMSNORM_NEEDS_GPU_PROGRAM, "--rows", "3", "--hidden", "100"});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.out, contains("98_tensor_cores") && contains("UNSUPPORTED"));
  CHECK_THAT(
      tests::on_one_line(finished.out), contains("unsupported: ") && contains("needs a GPU: ") &&
                                            contains("needs_gpu.cu:") &&
                                            contains("the CPU device has no <mma.h>"));
}

TEST_CASE("where nothing can be timed a prediction is graded by the recorded results") {
  const std::string recorded = tests::top() / "plots/data/nvidia-h200.csv";
  const Finished finished = tests::run(
      {RMSNORM_LESSONS_DIR "/predict_04_warp_reduce", "--lesson", "4", "--predict", "1.3",
       "--recorded", recorded});
  CHECK(finished.exit_code == kAllVerified);
  const std::vector<std::string> lines = tests::lines_in(finished.out);
  // Both kernels are verified here, in this regime and no other; only the grade has times.
  CHECK_THAT(
      tests::on_one_line(finished.out),
      contains(" decode, 16 x 4096 03_shared_memory PASS ") && contains(" 04_warp_reduce PASS "));
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

TEST_CASE("the program that grades a prediction holds the lesson and what it is compared with") {
  const std::string recorded = tests::top() / "plots/data/nvidia-h200.csv";
  const std::vector<std::pair<std::string, std::string>> predecessors = {
      {"02_naive", "02_naive/thread_per_row"},
      {"13_residual_add", "13_residual_add/two_kernels"},
      {"15_clusters", "12_launch_overlap"}};
  for (const auto& [lesson, before] : predecessors) {
    const Finished finished = tests::run(
        {RMSNORM_LESSONS_DIR "/predict_" + lesson, "--lesson", lesson, "--predict", "1.3",
         "--recorded", recorded});
    CAPTURE(lesson, finished.err);
    CHECK(finished.exit_code == kAllVerified);
    CHECK_THAT(finished.out, contains(" after " + before + " in "));
  }
}

TEST_CASE("a prediction that nothing can grade is a mistake, found before anything runs") {
  const tests::TemporaryFolder folder;
  const std::string none = folder / "none.csv";
  const std::string others = folder / "others.csv";
  write_csv(others, {});
  const auto check = [](const Finished& finished, const std::string& named) {
    CHECK(finished.exit_code == kBadUsage);
    CHECK(finished.out == "");
    CHECK_THAT(tests::lines_in(finished.err).back(), contains(named));
  };
  const auto predict = [](const std::string& recorded) {
    return run_all_lessons({"--lesson", "4", "--predict", "2", "--recorded", recorded});
  };
  check(run_all_lessons({"--lesson", "4", "--predict", "2"}), "--recorded");
  check(predict(none), none);
  check(predict(others), others + ": there is no result of 04_warp_reduce in decode");
  // A lesson's own program cannot know its predecessor, and says who does.
  check(
      tests::run({RMSNORM_LESSONS_DIR "/06_float4", "--predict", "2", "--recorded", "x.csv"}),
      "06_float4: ./rmsnorm lesson N --predict");
}

TEST_CASE("a prediction about a wrong kernel is not graded") {
  const tests::TemporaryFolder folder;
  const std::string file = folder / "results.csv";
  std::vector<Result> results;
  for (const Cache cache : {Cache::cold, Cache::warm}) {
    for (const char* lesson : {"99_on_gpu/variant", "99_on_gpu"}) {
      results.push_back(
          {.implementation = lesson, .regime = "decode", .cache = cache, .median_us = 1});
    }
  }
  write_csv(file, results);
  const Finished finished =
      tests::run({RMSNORM_WRONG_PROGRAM, "--lesson", "99", "--predict", "2", "--recorded", file});
  CHECK(finished.exit_code == kLessonWrong);
  CHECK_THAT(
      finished.out, contains("99_on_gpu/variant") && contains("FAIL") && !contains("you said"));
  CHECK(tests::lines_in(finished.out).back() == "wrong: 99_on_gpu/variant in decode (see above)");
}

TEST_CASE("a trace shows each lesson in its own regime unless another is asked for") {
  NEEDS_COUNTS();
  const std::string others = "--regime all shows others", asks = ": what each line asks for";
  const std::string own = run_all_lessons({"--lesson", "3", "--lesson", "4", "--trace"}).out;
  CHECK_THAT(
      own, contains("03_shared_memory in prefill, 32 x 4096" + asks) &&
               contains("04_warp_reduce in decode, 16 x 4096" + asks) && contains(others));
  const std::string heads = run_all_lessons({"--lesson", "4", "--trace", "--regime", "heads"}).out;
  CHECK_THAT(
      heads, contains("04_warp_reduce in heads, 1024 x 128" + asks) && !contains("in decode") &&
                 !contains(others));
}

/// The types of a file's results with this verdict, by implementation and operation. Variants are
/// left out: they may lack a type.
std::map<std::string, std::string> types_in(const std::string& file, Verdict verdict) {
  std::map<std::string, std::string> types;
  for (const Result& result : read_csv(file)) {
    if (result.verdict != verdict || is_variant(result.implementation)) continue;
    types[result.implementation + " " + result.operation] += result.dtype + " ";
  }
  return types;
}

TEST_CASE("tensors have the types that were asked for, or in a regime those that a kernel knows") {
  const tests::TemporaryFolder folder;
  const std::string chosen = folder / "chosen.csv";
  const Finished finished = run_all_lessons(
      {"--rows", "5", "--hidden", "104", "--dtype", "bf16/none", "--dtype", "fp32", "--csv",
       chosen});
  CHECK(finished.exit_code == kAllVerified);
  CHECK_THAT(finished.out, contains("UNSUPPORTED") && contains("not every problem is supported"));
  CHECK_THAT(
      run_all_lessons({"--lesson", "4", "--rows", "5", "--dtype", "bf16"}).out,
      contains("unsupported: 04_warp_reduce knows fp32 alone: "));
  const std::string decode = folder / "decode.csv";
  CHECK(run_all_lessons({"--regime", "decode", "--csv", decode}).exit_code == kAllVerified);

  std::map<std::string, std::string> right, unsupported, in_decode;
  for (const Implementation& i : all_implementations()) {
    const std::string name = i.slug + std::string(" ") + i.operation->name;
    if (is_variant(name)) continue;
    if (i.operation->regime.empty()) in_decode[name] = i.is_typed ? "fp32 bf16 fp16 " : "fp32 ";
    if (!i.operation->takes(104)) continue;
    // Lesson 01 is in fp32, whatever was asked for.
    right[name] = i.is_typed ? "bf16/none fp32 " : "fp32 ";
    if (!i.is_typed && i.memory == Memory::device) unsupported[name] = "bf16/none ";
  }
  CHECK(types_in(chosen, Verdict::pass) == right);
  CHECK(types_in(chosen, Verdict::unsupported) == unsupported);
  CHECK(types_in(decode, Verdict::pass) == in_decode);
}
