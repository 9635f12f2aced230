/// \file
/// ./rmsnorm check cannot be fooled: it says of every edit in tests/edits and tests/operations what
/// its head says, and rejects no lesson.

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/base/exit_code.hpp"
#include "common/base/files.hpp"
#include "common/contract/registry.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/records/result.hpp"
#include "tests/command.hpp"
#include "tests/edits.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace rmsnorm;
using namespace tests;

namespace {

const std::string kNoMistakeSeen = "no mistake was seen on the way: ";
const std::string kAdviceOnMost = "is an index or a bound of a loop off, or the formula wrong?";

/// What `check` makes of an edit: of one problem alone, if one is named, since those before the
/// first that shows a mistake would take long. A kernel that hangs is ended.
Finished check(const std::string& slug, const std::string& problem) {
  std::vector<std::string> command = {
      "timeout", problem.empty() ? "1500" : "300", RMSNORM_CHECK_EDITS_PROGRAM, slug};
  if (!problem.empty()) command.insert(command.end(), {"--only", problem});
  return run(command);
}

/// Checks that a kernel is accepted, ended, or cannot run, if that is what the edit's head says.
/// \returns whether it is
bool check_other_verdict(const Edit& edit, const std::string& slug) {
  if (const Entry right = entry_of(edit, "Right"); right.is_there) {
    const Finished finished = check(slug, right.on);
    INFO(finished.out << finished.err);
    CHECK(finished.exit_code == kAllVerified);
    CHECK_THAT(finished.out, contains(" PASS  on "));
    return true;
  }
  for (const char* name : {"Ended", "Cannot run"}) {
    const Entry entry = entry_of(edit, name);
    if (!entry.is_there) continue;
    const Finished finished = run({RMSNORM_CHECK_EDITS_PROGRAM, slug, "5000000"});
    INFO(finished.out << finished.err);
    CHECK(finished.exit_code == (entry.on.empty() ? kNoDevice : kLessonWrong));
    const std::string verdict = entry.on.empty() ? " cannot run: " : " FAIL on " + entry.on + ": ";
    CHECK_THAT(on_one_line(finished.out), contains(slug + verdict + on_one_line(entry.text)));
    return true;
  }
  return false;
}

/// Checks that `check` says of an edit what its head says (edits.hpp).
void check_edit(const Edit& edit, const std::string& slug) {
  const bool on_gpu = !is_cpu_device();
  const Entry by_gpu = entry_of(edit, "By a GPU");
  const Entry with_room = entry_of(edit, "By a GPU with room");
  const bool is_too_large = with_room.is_there && !fits_on_gpu(4194305, 513);
  if (on_gpu && (by_gpu.text == "not asked" || is_too_large)) {
    SUCCEED("no GPU is asked");
    return;
  }
  if (!(on_gpu && by_gpu.is_there) && check_other_verdict(edit, slug)) return;
  const Entry not_checked = entry_of(edit, "Not checked");
  Entry rejected = not_checked.is_there ? not_checked : entry_of(edit, "Rejected");
  if (on_gpu && by_gpu.is_there) rejected = by_gpu;
  if (on_gpu && with_room.is_there) rejected = with_room;
  REQUIRE(rejected.is_there);
  const Finished finished = check(slug, rejected.on);
  INFO(finished.out << finished.err);
  if (on_gpu && rejected.text == "at times") {
    CHECK(finished.exit_code != kBadUsage);
    return;
  }
  if (on_gpu && rejected.text == "never") {
    CHECK(finished.exit_code == kAllVerified);
    return;
  }
  const std::string said = on_one_line(finished.out);
  const std::string says = on_one_line(rejected.text);
  INFO("it has to say: " << says);
  if (not_checked.is_there) {
    CHECK(finished.exit_code == kNotChecked);
    CHECK_THAT(said, contains("NOT CHECKED " + says) && !contains("PASS"));
    CHECK_THAT(
        said,
        contains(not_checked.on.empty() ? " problems else right on " : " else right on 1 problem"));
    return;
  }
  CHECK(finished.exit_code == kLessonWrong);
  // "SLUG  FAIL  on 3 x 5:", then the complaint; without the first if the GPU is lost.
  REQUIRE(lines_in(finished.out).size() >= 2);
  const std::string complaint =
      said.substr(std::min({said.find(" FAIL on "), said.find("FAIL edit/"), said.size()}));
  const std::size_t at = complaint.find(says);
  REQUIRE(at != complaint.npos);
  // In the first of the device's complaints: each ends with the kernel and an advice.
  CHECK_THAT(complaint.substr(0, at), !contains(" (kernel ") && !contains(kNoMistakeSeen));
  if (!rejected.on.empty()) CHECK(complaint.starts_with(" FAIL on " + rejected.on + ":"));
  if (on_gpu) return;
  const Entry advised = entry_of(edit, "Advised");
  if (advised.is_there) {
    CHECK_THAT(said + " ", contains(" " + on_one_line(advised.text) + " "));
  } else {
    CHECK_THAT(said, !contains(kNoMistakeSeen) || contains(kNoMistakeSeen + kAdviceOnMost));
  }
}

/// Holds the lessons whose slugs begin so to what the mutants fail. Variants have to do what
/// test_lessons.cpp demands, and no more.
void check_what_begins_with(const std::string& begin) {
  NEEDS_GPU();
  if (is_cpu_device()) NEEDS_COUNTS();
  std::set<std::string> slugs;
  for (const Implementation& lesson : all_implementations()) {
    const std::string slug = lesson.slug;
    if (!is_variant(slug) && slug.starts_with(begin)) slugs.insert(slug);
  }
  REQUIRE(!slugs.empty());
  for (const std::string& slug : slugs) {
    const Finished finished = run({RMSNORM_CHECK_EDITS_PROGRAM, slug});
    CAPTURE(slug, finished.out, finished.err);
    CHECK(finished.exit_code == kAllVerified);
    CHECK_THAT(finished.out, contains(" PASS  on "));
  }
}

}  // namespace

TEST_CASE("check says of every edit of a lesson what its head says", "[whole]") {
  NEEDS_GPU();
  if (is_cpu_device() && !can_watch()) SKIP_TEST("this build cannot watch kernels");
  for (const Edit& edit : edits_in("tests/edits")) {
    DYNAMIC_SECTION(edit.name()) {
      check_edit(edit, "edit/" + edit.name());
    }
  }
}

TEST_CASE("check says of every edit of another operation's kernel what its head says", "[whole]") {
  if (!is_cpu_device()) SKIP_TEST("these kernels are built for the CPU device alone");
  if (!can_watch()) SKIP_TEST("this build cannot watch kernels");
  for (const fs::directory_entry& folder : fs::directory_iterator(top() / "tests/operations")) {
    const std::string operation = folder.path().filename();
    for (const Edit& edit : edits_in(folder.path())) {
      DYNAMIC_SECTION(operation << "/" << edit.name()) {
        check_edit(edit, "edit/" + operation + "_" + edit.name());
      }
    }
  }
}

TEST_CASE("check accepts every twin of a wrong kernel, which does as much, as a whole", "[whole]") {
  NEEDS_GPU();
  int twins = 0;
  for (const Edit& edit : edits_in("tests/edits")) {
    if (entry_of(edit, "Right").on.empty()) continue;  // wrong, or tried as a whole above
    const Finished finished = check("edit/" + edit.name(), "");
    CAPTURE(edit.name(), finished.out, finished.err);
    // A copy as large as a tensor is not tried where few blocks run.
    const bool is_right = finished.exit_code == kAllVerified || finished.exit_code == kNotChecked;
    CHECK(is_right);
    CHECK_THAT(finished.out, contains(" PASS  on ") || contains("else right on "));
    ++twins;
  }
  CHECK(twins >= 3);
}

TEST_CASE("the pages of lessons 14 and 15 quote what check says of mutants of theirs") {
  const auto says = [](const std::string& name) {
    for (const Edit& edit : edits_in("tests/edits")) {
      if (edit.name() != name) continue;
      const std::string text = entry_of(edit, "Rejected").text;
      const std::size_t place = text.find(".edit:");
      return "\n" + (place == text.npos ? text : text.substr(text.find(": ", place) + 2)) + "\n";
    }
    throw std::logic_error("no mutant is called " + name);
  };
  const std::string backward = read_file(top() / "lessons/14_backward/README.md");
  CHECK_THAT(backward, contains(says("backward_atomics")));
  CHECK_THAT(
      backward, contains("cmake -D EDIT=tests/edits/backward_atomics.edit -D COPY=build/atomics.cu "
                         "-P cmake/Edits.cmake\n"
                         "./rmsnorm check build/atomics.cu --device cpu\n"));
  const std::string clusters = read_file(top() / "lessons/15_clusters/README.md");
  CHECK_THAT(
      clusters,
      contains(says("cluster_leaves_early")) && contains(says("cluster_no_first_barrier")));
}

// Two, as each takes minutes.
TEST_CASE(
    "lessons 01 to 09 come through the check, traffic and all, that wrong kernels fail",
    "[whole]") {
  check_what_begins_with("0");
}

TEST_CASE(
    "later lessons come through the check, traffic and all, that wrong kernels fail", "[whole]") {
  check_what_begins_with("1");
}

TEST_CASE(
    "the library comes through the check, but for lines that it has for other layouts and GPUs",
    "[whole]") {
  NEEDS_GPU();
  if (is_cpu_device()) NEEDS_COUNTS();
  const Finished finished = run({RMSNORM_CHECK_EDITS_PROGRAM, "librmsnorm"});
  CAPTURE(finished.out, finished.err);
  // The harness has contiguous tensors and one device.
  const bool is_right =
      finished.exit_code == kAllVerified || (is_cpu_device() && finished.exit_code == kNotChecked);
  CHECK(is_right);
  CHECK_THAT(finished.out, contains(" PASS  on ") || contains("else right on "));
  CHECK_THAT(finished.out, !contains("FAIL"));
}
