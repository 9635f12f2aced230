/// \file
/// The programs as a user meets them: exit codes, one sentence for a mistake, results on stdout.
/// None of these tests sees a GPU, whether there is one or not.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/files.hpp"
#include "common/contract/regime.hpp"
#include "common/contract/registry.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/records/csv.hpp"
#include "tests/catch.hpp"
#include "tests/command.hpp"
#include "tests/repository.hpp"
#include "tests/temporary_folder.hpp"

using namespace rmsnorm;
using tests::contains;
using tests::Finished;
using tests::run_without_gpu;
using tests::TemporaryFolder;

namespace fs = std::filesystem;

namespace {

std::string program(const std::string& name) {
  return RMSNORM_LESSONS_DIR "/" + name;
}

/// Runs a program, and hides the GPU from it.
Finished run_program(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  return run_without_gpu(arguments);
}

Finished run_all_lessons(const std::vector<std::string>& arguments) {
  return run_program(program("all_lessons"), arguments);
}

Finished run_lesson_01(const std::vector<std::string>& arguments) {
  return run_program(program("01_sequential_cpu"), arguments);
}

Finished run_wrong(const std::vector<std::string>& arguments) {
  return run_program(RMSNORM_WRONG_PROGRAM, arguments);
}

/// The lines of a list that begin with a name: the others go on with the one before.
std::vector<std::string> listed(const std::string& list) {
  std::vector<std::string> lines = tests::lines_in(list);
  std::erase_if(lines, [](const std::string& line) { return line.starts_with(" "); });
  return lines;
}

bool is_one_line(const std::string& text) {
  return text.size() > 1 && text.find('\n') == text.size() - 1;
}

}  // namespace

TEST_CASE(
    "a lesson that is right makes the exit code 0 and prints its table alone, without colour") {
  for (const char* const rows : {"3", "0"}) {
    const Finished finished = run_lesson_01({"--rows", rows, "--hidden", "100"});
    CHECK(finished.exit_code == kAllVerified);
    const std::vector<std::string> lines = tests::lines_in(finished.out);
    REQUIRE(lines.size() == 2);
    CHECK_THAT(
        lines[0], contains("01_sequential_cpu ") && contains(" error ") && contains(" bound"));
    CHECK_THAT(
        lines[1], contains("custom " + std::string(rows) + " x 100 ") && contains(" PASS  "));
    CHECK_THAT(finished.out, !contains("\033"));
    CHECK(finished.err == "");
  }
}

TEST_CASE("lesson 01 passes in all regimes of its operation without a GPU and in no other") {
  const Finished finished = run_lesson_01({});
  CHECK(finished.exit_code == kAllVerified);
  std::size_t forward = 0;
  for (const Regime& regime : regimes()) {
    if (!is_measured_in(*all_implementations()[0].operation, regime)) continue;
    CHECK_THAT(finished.out, contains("\n" + regime.name + " "));
    ++forward;
  }
  const std::vector<std::string> lines = tests::lines_in(finished.out);
  REQUIRE(lines.size() == 1 + forward + 1);
  CHECK(lines.back() == "the CPU does fewer rows: 1024 x 4096 stands for 262144 x 4096");
  const Finished other = run_lesson_01({"--regime", "backward"});
  CHECK(other.exit_code == kBadUsage);
  CHECK(other.out == "");
  CHECK_THAT(other.err, contains("nothing to run: some operations have a regime of their own"));
}

TEST_CASE("a lesson that is wrong makes the exit code 1, says what is wrong and has no time") {
  const TemporaryFolder folder;
  const std::string file = folder / "results.csv";
  const Finished finished =
      run_wrong({"--lesson", "00_fake", "--rows", "3", "--hidden", "100", "--csv", file});
  CHECK(finished.exit_code == kLessonWrong);
  const std::vector<std::string> lines = tests::lines_in(finished.out);
  // The table, and then what is wrong, alone.
  REQUIRE(lines.size() >= 6);
  CHECK_THAT(lines[0], contains("00_fake ") && contains(" error ") && contains(" bound"));
  CHECK_THAT(lines[1], contains("custom 3 x 100 FAIL"));
  CHECK(lines[2] == "");
  CHECK_THAT(lines[3], contains("00_fake ") && contains("FAIL") && contains("row 0, column 0: "));
  CHECK(lines[lines.size() - 2] == "");
  CHECK(lines.back() == "wrong: 00_fake in custom (see above)");
  const std::vector<Result> results = read_csv(file);
  REQUIRE(results.size() == 1);
  CHECK(results[0].verdict == Verdict::fail);
  CHECK_FALSE(results[0].median_us.has_value());
  CHECK(results[0].max_error > results[0].error_bound);
}

TEST_CASE("without a GPU every GPU lesson gets a line with the reason and the exit code is 3") {
  if (is_cpu_device()) SKIP_TEST("the CPU device is there whether there is a GPU or not");
  const Finished finished = run_all_lessons({"--rows", "3", "--hidden", "100"});
  CHECK(finished.exit_code == kNoDevice);
  const std::vector<std::string> lines = tests::lines_in(finished.out);
  for (const Implementation& lesson : all_implementations()) {
    CAPTURE(lesson.slug);
    if (lesson.memory == Memory::host) continue;
    CHECK(std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
            return line.starts_with(lesson.slug + std::string(" ")) &&
                   line.find(" cannot run: ") != line.npos;
          }) >= 1);
  }
  CHECK_THAT(finished.out, contains("01_sequential_cpu") && contains(" x 100 PASS  "));

  // A wrong lesson outweighs the missing GPU. Its cache has no size.
  CHECK(run_wrong({"--lesson", "99_on_gpu", "--rows", "1"}).exit_code == kNoDevice);
  const Finished both = run_wrong({"--rows", "1"});
  CHECK(both.exit_code == kLessonWrong);
  CHECK_THAT(both.out, contains("99_on_gpu") && contains("cannot run"));
  const Finished cache = run_all_lessons({"--l2"});
  CHECK(cache.exit_code == kNoDevice);
  CHECK(cache.out == "");
  CHECK(is_one_line(cache.err));
  CHECK_THAT(cache.err, contains("GPU") || contains("driver"));
}

TEST_CASE("every lesson has a program of its own that lists its kernels and no others") {
  for (const fs::path& folder : tests::lesson_folders()) {
    const std::string slug = folder.filename().string();
    CAPTURE(slug);
    const Finished finished = run_without_gpu({program(slug), "--list"});
    CHECK(finished.exit_code == 0);
    CHECK(finished.err == "");
    const std::vector<Implementation> own = find_implementations(all_implementations(), slug);
    const std::vector<std::string> lines = listed(finished.out);
    REQUIRE(lines.size() == own.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      CHECK(lines[i].starts_with(std::string(own[i].slug) + " "));
  }
}

TEST_CASE("the list has every lesson") {
  const Finished finished = run_all_lessons({"--list"});
  CHECK(finished.exit_code == 0);
  CHECK(listed(finished.out).size() == all_implementations().size());
  for (const std::string& line : tests::lines_in(finished.out)) CHECK(line.size() <= 100);
}

TEST_CASE(
    "the help explains every option and the exit codes, the version the revision and the toolkit") {
  const Finished help = run_all_lessons({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.err == "");
  for (const char* option :
       {"--lesson", "--operation",   "--regime",   "--rows",    "--hidden",
        "--eps",    "--seed",        "--min-time", "--cold",    "--warm",
        "--csv",    "--verify-only", "--trace",    "--predict", "--recorded",
        "--list",   "--version",     "--variants", "--verbose", "Exit codes"}) {
    CHECK_THAT(help.out, contains(option));
  }
  for (const std::string& line : tests::lines_in(help.out)) CHECK(line.size() <= 100);
  const std::string idea = all_implementations()[0].idea;
  CHECK_THAT(run_lesson_01({"--help"}).out, contains("01_sequential_cpu: " + idea));
  const Finished version = run_all_lessons({"--version"});
  CHECK(version.exit_code == 0);
  CHECK_THAT(version.out, contains("built from "));
  CHECK_THAT(version.out, contains(is_cpu_device() ? " for the CPU device" : " with CUDA 1"));
}

TEST_CASE("a mistake in the command line makes the exit code 2 and one sentence that names it") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--rows", "-1"}, "--rows"},
      {{"--rows", "2147483648"}, "2147483648"},
      {{"--rows"}, "--rows"},
      {{"--hidden", "0"}, "--hidden"},
      {{"--hidden", "1073741825"}, "1073741825"},
      {{"--hidden", "12cm"}, "12cm"},
      {{"--eps", "inf"}, "inf"},
      {{"--eps", "-1e-5"}, "--eps"},
      {{"--seed", "-1"}, "--seed"},
      {{"--min-time", "0"}, "--min-time"},
      {{"--rows", "5", "--regime", "decode"}, "--rows"},
      {{"--cold", "--warm"}, "--warm"},
      {{"--dtype", "fp64"}, "fp64"},
      {{"--lesson", "4", "--predict"}, "--predict"},
      {{"--lesson", "4", "--predict", "0"}, "'0' is no factor"},
      {{"--lesson", "4", "--predict", "nan"}, "'nan' is no factor"},
      {{"--lesson", "4", "--predict", "abc"}, "'abc' is no factor"},
      {{"--lesson", "4", "--predict", "2", "--regime", "wide"}, "--regime"},
      {{"--lesson", "4", "--predict", "2", "--dtype", "fp32"}, "--dtype"},
      {{"--lesson", "4", "--predict", "2", "--verify-only"}, "--verify-only"},
      {{"--lesson", "1", "--predict", "2", "--recorded", "x.csv"}, "01_sequential_cpu is about no"},
      {{"--predict", "2", "--recorded", "x.csv"}, "one lesson at a time"},
      {{"--lesson", "02_naive/thread_per_row", "--predict", "2", "--recorded", "x.csv"},
       "a variant"},
      {{"--operation", "softmin"}, "nothing here does 'softmin'; there are "},
      {{"--regime", "nowhere"}, "nowhere"},
      {{"--lesson", ""}, "''"},
      {{"--bogus"}, "--bogus"},
      {{"bogus"}, "bogus"},
  };
  for (const auto& [arguments, named] : mistakes) {
    CAPTURE(arguments);
    const Finished finished = run_all_lessons(arguments);
    CHECK(finished.exit_code == kBadUsage);
    CHECK(finished.out == "");
    CHECK(is_one_line(finished.err));
    CHECK_THAT(finished.err, contains(named));
  }
}

TEST_CASE("what only the CPU device can count is a mistake elsewhere") {
  if (can_watch()) SKIP_TEST("this build can count it");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--trace"}, {"--trace-csv", "trace.csv"}}) {
    const Finished finished = run_all_lessons(arguments);
    CHECK(finished.exit_code == kBadUsage);
    CHECK(is_one_line(finished.err));
    CHECK_THAT(finished.err, contains(arguments[0]) && contains("--device cpu"));
  }
}

TEST_CASE("results go to the file that was asked for") {
  const TemporaryFolder folder;
  const std::string file = folder / "new" / "results.csv";
  const Finished finished =
      run_lesson_01({"--rows", "3", "--hidden", "100", "--eps", "0.5", "--csv", file});
  CHECK(finished.exit_code == kAllVerified);
  const std::vector<Result> results = read_csv(file);
  REQUIRE(results.size() == 1);
  const Result& result = results[0];
  CHECK((result.implementation == "01_sequential_cpu" && result.operation == "rms_norm"));
  CHECK((result.regime == kCustomRegime && result.rows == 3 && result.hidden == 100));
  CHECK((result.verdict == Verdict::pass && result.device == "cpu" && !result.gbps));
  CHECK((result.bytes == 2 * 3 * 100 * 4 && result.bytes_per_row_predicted == 1600));
  CHECK(result.max_error <= result.error_bound);
  CHECK(result.date.size() == 10);
}

TEST_CASE("a results file that cannot be written makes the exit code 2 and one sentence") {
  const TemporaryFolder folder;
  write_file(folder / "file", "kept");
  for (const std::string target : {folder / "file" / "results.csv", folder / ""}) {
    CAPTURE(target);
    const Finished finished = run_lesson_01({"--rows", "1", "--hidden", "8", "--csv", target});
    CHECK(finished.exit_code == kBadUsage);
    CHECK(is_one_line(finished.err));
    CHECK_THAT(finished.err, contains("cannot write") && contains(target));
    CHECK(finished.out == "");  // known before anything was done in vain
  }
  CHECK(read_file(folder / "file") == "kept");
}
