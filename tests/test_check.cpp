/// \file
/// What ./rmsnorm check says, of right kernels and of wrong ones.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/exit_code.hpp"
#include "common/base/watching.hpp"
#include "tests/catch.hpp"
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

const std::string kAdvice = "\n  no mistake was seen on the way: is a ";

}  // namespace

TEST_CASE("check says of a right kernel what the page about the CPU device quotes") {
  NEEDS_COUNTS();
  const Finished finished = check({"04_warp_reduce"});
  CHECK(finished.exit_code == kAllVerified);
  const std::vector<std::string> page = lines_of(top() / "docs" / "cpu_device.md");
  const std::vector<std::string> said = lines_in(finished.out);
  REQUIRE_FALSE(said.empty());
  CHECK(std::find(page.begin(), page.end(), said[0]) != page.end());
  const std::size_t at = said[0].find("right on ");
  REQUIRE(at != std::string::npos);
  const std::string number = said[0].substr(at + 9, said[0].find(" problems") - at - 9);
  CHECK(std::any_of(page.begin(), page.end(), [&](const std::string& line) {
    return line.starts_with("It runs on " + number + " problems: ");
  }));
}

TEST_CASE("check rejects a kernel whose traffic is not as predicted") {
  NEEDS_COUNTS();
  const Finished finished = check({"false_traffic"});
  CHECK(finished.exit_code == kLessonWrong);
  CHECK_THAT(
      finished.out, contains("false_traffic               FAIL  on 64 x 4096:\n"
                             "  a row is to read 32768 and write 16384 bytes, but 49152 "
                             "and 16384 were counted\n"));
}

TEST_CASE("check advises where no mistake was seen that explains a wrong result, and only there") {
  NEEDS_COUNTS();
  for (const auto& [mutant, has_advice] : std::vector<std::pair<const char*, bool>>{
           {"neighbour_weight", true},           // an index
           {"half_lanes", true},                 // a loop's bound
           {"eps_missing", true},                // the formula
           {"unset_sum", true},                  // a variable
           {"no_barrier_after_partial", false},  // a mistake was seen
           {"changes_x", false},                 // memory was changed
           {"grid_of_no_blocks", false},         // nothing was launched
           {"swallows_nan", false},              // plain problems are right
           {"eps_hard_coded", false}}) {
    CAPTURE(mutant);
    const Finished finished = check({std::string("mutant/") + mutant});
    CHECK(finished.exit_code == kLessonWrong);
    CHECK((finished.out.find(kAdvice) != std::string::npos) == has_advice);
    if (has_advice) CHECK_THAT(finished.out, contains(": expected "));
  }
}

TEST_CASE("check ends a kernel of the CPU device that never ends and names the problem") {
  if (!is_cpu_device()) SKIP_TEST("a GPU cannot be asked");
  const Finished finished = check({"97_never_ends", "1"});
  CHECK(finished.exit_code == kLessonWrong);
  CHECK(
      finished.out ==
      "97_never_ends               FAIL  on 1 x 1: no end after 1 s: is there a loop that never "
      "ends?\n");
}

TEST_CASE("check names what only a GPU has and is neither right nor wrong about it") {
  if (!is_cpu_device()) SKIP_TEST("a GPU cannot be asked");
  const Finished finished = check({"98_tensor_cores"});
  CHECK(finished.exit_code == kNoDevice);
  CHECK_THAT(
      finished.out,
      contains("98_tensor_cores             cannot run: it needs a GPU: needs_gpu.cu:") &&
          contains(": the CPU device has no <mma.h> (tensor cores)\n"));
}

TEST_CASE("check leads to branches for long rows, and finds nothing wrong in right ones") {
  NEEDS_COUNTS();
  for (const char* const twin : {"wide_rows", "short_array"}) {
    CAPTURE(twin);
    const Finished finished = check({std::string("covered/") + twin});
    CHECK(finished.exit_code == kAllVerified);
    CHECK_THAT(finished.out, contains(" PASS  right on ") && contains(" of all drawn by seed 1"));
  }
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
  CHECK_THAT(all.out, contains("layer_norm                  PASS  right on "));
  CHECK_THAT(all.out, contains("softmax                     PASS  right on "));
  const Finished one = check_file({"--operation", "softmax", "--small"});
  CHECK(one.exit_code == kAllVerified);
  CHECK_THAT(one.out, contains("softmax ") && !contains("layer_norm"));
  const Finished none = check_file({"--operation", "backward"});
  CHECK(none.exit_code == kBadUsage);
  CHECK(none.out == "");
  CHECK(none.err == "the file registers no kernel that does 'backward'\n");
}
