/// \file
/// What ./rmsnorm check says, of right kernels and of wrong ones.

#include <algorithm>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/exit_code.hpp"
#include "common/programs/check.hpp"
#include "tests/command.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"

using namespace rmsnorm;
using namespace tests;

namespace {

Finished check(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {RMSNORM_CHECK_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run(command);
}

}  // namespace

TEST_CASE("check says of a right kernel what the page about the CPU device quotes") {
  NEEDS_COUNTS();
  const Finished finished = check({"04_warp_reduce"});
  CHECK(finished.exit_code == kAllVerified);
  const std::vector<std::string> page = lines_of(top() / "docs" / "cpu_device.md");
  // The page's file is called build/my.cu.
  std::string said = finished.out;
  const std::string slug = "04_warp_reduce ";
  REQUIRE(said.starts_with(slug));
  said.replace(0, slug.size(), "build/my.cu    ");
  // There the kernel is compiled as a reader's, and other problems are interesting.
  const std::regex number_of_problems("on [0-9]+ problems, [0-9]+ of them random");
  const auto any_number = [&](const std::string& line) {
    return std::regex_replace(line, number_of_problems, "on some problems, some of them random");
  };
  for (const std::string& line : lines_in(said)) {
    CAPTURE(line);
    CHECK(std::any_of(page.begin(), page.end(), [&](const std::string& quoted) {
      return any_number(quoted) == any_number(line);
    }));
    CHECK(columns(line) <= 100);
  }
}

TEST_CASE("check rejects a kernel whose traffic is not as predicted") {
  NEEDS_COUNTS();
  const Finished finished = check({"false_traffic"});
  CHECK(finished.exit_code == kLessonWrong);
  CHECK_THAT(
      on_one_line(finished.out),
      contains("false_traffic FAIL on 64 x 4096: a row is to read 32768 and write 16384 bytes, but "
               "49152 (x 32768, weight 16384) and 16384 (y 16384) were counted"));
}

TEST_CASE("check shows the first lines that kernels print, and says that there are more") {
  NEEDS_COUNTS();
  const Finished finished = check({"edit/prints"});
  CHECK(finished.exit_code == kAllVerified);
  const std::vector<std::string> lines = lines_in(finished.out);
  CHECK(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
          return line.starts_with("thread ");
        }) == 20);
  CHECK_THAT(finished.out, contains("\nwhat kernels print from here on is not shown\n"));
}

TEST_CASE("check names the reason of most problems that a kernel does not support") {
  NEEDS_COUNTS();
  const std::string out = on_one_line(check({"06_float4"}).out);
  CHECK_THAT(
      out, contains(" does not support ") && contains(" others, ") &&
               contains(" of them because: 06_float4 needs hidden % 4 == 0 "));
}

TEST_CASE("a copy of one lesson is called after its file, and other kernels as they say") {
  std::vector<rmsnorm::Implementation> kernels(3);
  kernels[0].slug = "04_warp_reduce";
  kernels[1].slug = "04_warp_reduce/512";
  kernels[2].slug = "mine";
  rmsnorm::name_after_file(kernels, "build/my.cu");
  CHECK(kernels[0].slug == std::string("build/my.cu"));
  CHECK(kernels[1].slug == std::string("build/my.cu/512"));
  CHECK(kernels[2].slug == std::string("mine"));

  kernels[0].slug = "04_warp_reduce";
  kernels[1].slug = "06_float4";
  rmsnorm::name_after_file(kernels, "build/my.cu");
  CHECK(kernels[0].slug == std::string("04_warp_reduce"));
  CHECK(kernels[1].slug == std::string("06_float4"));
}

TEST_CASE("check refuses a registration without a field that it needs, and two of one slug") {
  for (const auto& [slug, sentence] : std::vector<std::pair<const char*, const char*>>{
           {"no_traffic", "no_traffic's registration lacks its .traffic\n"},
           {"twice", "two registrations have the .slug \"twice\": give each its own\n"}}) {
    const Finished finished = check({slug});
    CHECK(finished.exit_code == kBadUsage);
    CHECK(finished.err == sentence);
  }
}

TEST_CASE("check calls a kernel right on a problem alone, where lines of it do not run") {
  NEEDS_COUNTS();
  const Finished alone = check({"edit/between_sizes", "--only", "3 x 1000"});
  CHECK(alone.exit_code == kAllVerified);
  CHECK_THAT(alone.out, contains(" PASS  on 1 problem\n"));
}

TEST_CASE("check names a kernel that is chosen for no problem, and none that nobody uses") {
  NEEDS_COUNTS();
  const Finished finished = run({RMSNORM_CHECK_NEVER_PROGRAM});
  CHECK(finished.exit_code == kNotChecked);
  CHECK_THAT(
      on_one_line(finished.out),
      contains(" NOT CHECKED tests/chosen_never.edit:9 to 11 were never run by any of ") &&
          contains(" problems else right on "));
}

TEST_CASE("check runs the problem alone that it names where a kernel is wrong") {
  NEEDS_COUNTS();
  for (const auto& [mutant, problem] : std::vector<std::pair<std::string, std::string>>{
           {"half_lanes", "1 x 31"},
           {"next_row_times_zero", "9 x 1024, NaN in every odd row"},
           {"forgets_bias", "3 x 4, fp32, 1 + the weight"},
           {"only_y_unaligned", "3 x 1024, with y alone 4 bytes behind a 16-byte boundary"},
           {"rows_in_grid_y", "8264705 x 520, of which few blocks ran"}}) {
    CAPTURE(mutant);
    const Finished alone = check({"edit/" + mutant, "--only", problem});
    CHECK(alone.exit_code == kLessonWrong);
    CHECK_THAT(
        alone.out, contains("FAIL  on " + problem + ":\n") &&
                       contains("\n  this problem alone: --only '" + problem + "'\n"));
  }
  const Finished right = check({"04_warp_reduce", "--only", "3 x 1000, eps 0.01"});
  CHECK(right.exit_code == kAllVerified);
  CHECK_THAT(right.out, contains(" PASS  on 1 problem\n"));
  const Finished none = check({"04_warp_reduce", "--only", "3 x 1000, by night"});
  CHECK(none.exit_code == kLessonWrong);
  CHECK_THAT(none.out, contains("there is no problem '3 x 1000, by night'"));
}

TEST_CASE("check rejects a kernel that supports no problem") {
  NEEDS_GPU();
  const Finished finished = check({"supports_none"});
  CHECK(finished.exit_code == kLessonWrong);
  CHECK(finished.out == "supports_none               FAIL  it supports no shape: it is tired\n");
}

TEST_CASE("check says that there is no kernel in the file") {
  const Finished finished = check({"no such lesson"});
  CHECK(finished.exit_code == kBadUsage);
  CHECK(finished.err == "the file registers no kernel: it needs a rmsnorm::Registration\n");
}

TEST_CASE(
    "check and check --operation take the kernels of one operation or say that there is none") {
  NEEDS_COUNTS();
  const auto check_file = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), RMSNORM_CHECK_FILE_PROGRAM);
    return run(arguments);
  };
  const Finished all = check_file({"--small"});
  CHECK(all.exit_code == kAllVerified);
  CHECK_THAT(all.out, contains("layer_norm                  PASS  on "));
  CHECK_THAT(all.out, contains("softmax                     PASS  on "));
  const Finished one = check_file({"--operation", "softmax", "--small"});
  CHECK(one.exit_code == kAllVerified);
  CHECK_THAT(one.out, contains("softmax ") && !contains("layer_norm"));
  const Finished none = check_file({"--operation", "backward"});
  CHECK(none.exit_code == kBadUsage);
  CHECK(none.out == "");
  CHECK(none.err == "the file registers no kernel that does 'backward'\n");
}
