/// \file
/// The CPU device finds the mistakes in hazards/, and none in the same kernels without them.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/tests/hazards/cases.hpp"
#include "tests/catch.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"
#include "tests/watch.hpp"

using namespace tests;

namespace {

constexpr int kGuard = 256;  // elements
constexpr int kStride = kGuard + (Memory::kElements + 3) / 4 * 4;

/// Launches with x and y in one piece of memory, with guards around both.
Outcome run(const Case& c, bool correct) {
  const Floats all(2 * kStride + kGuard);
  const Memory memory{all.data + kGuard, all.data + kStride + kGuard};
  const std::size_t bytes = Memory::kElements * sizeof(float);
  const std::vector<rmsnorm::KnownMemory> tensors = {
      {"x", memory.x, bytes, sizeof(float), true, false},
      {"y", memory.y, bytes, sizeof(float), false, true}};
  return watch(tensors, [&] { c.launch(memory, correct); });
}

/// "common/cpu_device/tests/hazards/race.cu:12", the line that ends in "// <-- TAG".
std::string place_of(const std::string& file, const std::string& tag) {
  const std::string ending = "// <-- " + tag;
  std::size_t number = 0;
  std::vector<std::size_t> found;
  for (const std::string& line : lines_of(top() / file)) {
    ++number;
    if (line.ends_with(ending)) found.push_back(number);
  }
  CAPTURE(file, tag);
  REQUIRE(found.size() == 1);
  return file + ":" + std::to_string(found[0]);
}

/// Whether a text is the expected one, in which "..." may be anything.
bool matches(std::string_view text, std::string_view expected) {
  const std::string_view gap = "...";
  const std::size_t end = expected.find(gap);
  const std::string_view begin = expected.substr(0, end);
  if (!text.starts_with(begin)) return false;
  if (end == expected.npos) return text == begin;
  const std::string_view rest = expected.substr(end + gap.size());
  for (std::size_t from = begin.size(); from <= text.size(); ++from) {
    if (matches(text.substr(from), rest)) return true;
  }
  return false;
}

/// The messages of hazards/FILE.cu in messages.txt, by the cases' names. There, up to the kernel's
/// name, "<TAG>" stands for the place of the line that ends in a comment "// <-- TAG"; everywhere,
/// "..." stands for what depends on the compiler.
std::map<std::string, std::string> messages_of(const std::string& file) {
  const std::string folder = "common/cpu_device/tests/hazards/";
  std::map<std::string, std::string> messages;
  std::string section;
  for (const std::string& line : lines_of(top() / (folder + "messages.txt"))) {
    if (line.starts_with("[")) section = line;
    const std::size_t bar = line.find(" | ");
    if (section != "[" + file + "]" || bar == line.npos) continue;
    std::string message = line.substr(bar + 3);
    for (std::size_t open; (open = message.find('<')) < message.find(" (kernel tests::");) {
      const std::size_t close = message.find('>', open);
      const std::string tag = message.substr(open + 1, close - open - 1);
      message.replace(open, close + 1 - open, place_of(folder + file + ".cu", tag));
    }
    messages[line.substr(0, bar)] = message;
  }
  return messages;
}

void check_wrong(const Case& c, const std::string& expected) {
  const Outcome outcome = run(c, false);
  CHECK(outcome.at_launch == cudaSuccess);
  CHECK(outcome.at_synchronise == c.error);
  REQUIRE_FALSE(outcome.hazards.empty());
  CAPTURE(outcome.hazards[0], expected);
  CHECK(matches(outcome.hazards[0], expected));
}

void check_right(const Case& c) {
  const Outcome outcome = run(c, true);
  CHECK(outcome.at_launch == cudaSuccess);
  CHECK(outcome.at_synchronise == cudaSuccess);
  CHECK(outcome.hazards == std::vector<std::string>());
}

/// The mistake is found, and then the device works as before.
void check(const std::vector<Case>& cases, const std::string& file, bool can_see_wrong) {
  std::map<std::string, std::string> messages = messages_of(file);
  CHECK(messages.size() == cases.size());
  for (const Case& c : cases) {
    DYNAMIC_SECTION(c.name) {
      check_right(c);
      if (!can_see_wrong) continue;
      check_wrong(c, messages.at(c.name));
      check_right(c);
    }
  }
}

void check_loads_and_stores(const std::vector<Case>& cases, const std::string& file) {
  check(cases, file, rmsnorm::can_watch());
  if (!rmsnorm::can_watch()) SKIP_TEST("loads and stores are not watched in this build");
}

}  // namespace

TEST_CASE("two threads at the same shared memory without a barrier are found") {
  check_loads_and_stores(race_cases(), "race");
}

TEST_CASE("accesses to global memory that nothing orders are found, and reads of no value") {
  NEEDS_COUNTS();  // without, nobody notices a thread that waits for a flag, and lets others run
  check_loads_and_stores(global_cases(), "global");
}

TEST_CASE("flags with fences that are missing, too narrow or on one side alone are found") {
  NEEDS_COUNTS();  // as above
  check_loads_and_stores(memory_model_cases(), "memory_model");
}

TEST_CASE("threads at different barriers and threads that have left are found") {
  check(barrier_cases(), "barrier", true);
}

TEST_CASE("a barrier that stands in a branch between the two of a race is named") {
  const Case c = barrier_of_one_warp();
  check_right(c);
  if (!rmsnorm::can_watch()) SKIP_TEST("loads and stores are not watched in this build");
  const Outcome outcome = run(c, false);
  REQUIRE(outcome.hazards.size() == 2);
  CHECK_THAT(outcome.hazards[0], contains(": a race: ") && contains(" first "));
  const std::string place = place_of("common/cpu_device/tests/hazards/barrier.cu", "of one warp");
  CHECK(matches(
      outcome.hazards[1],
      place + ": 32 of the block's 64 threads came to this __syncthreads(), the others returned "
              "without it, so it does not order the two of the race (kernel "
              "tests::one_warp_waits, block 0, thread ...). Every thread of a block has to reach "
              "the same __syncthreads(): take it out of the branch, or let the threads that have "
              "nothing to do come along"));
}

TEST_CASE("masks that are not true and shuffles that leave the warp are found") {
  check(shuffle_cases(), "shuffle", true);
}

TEST_CASE("temporary storage of cub that is not shared or that two warps share is found") {
  check(temp_storage_cases(), "temp_storage", true);
}

TEST_CASE("a read of shared memory that nobody has written is found") {
  check_loads_and_stores(unwritten_cases(), "unwritten");
}

TEST_CASE("accesses out of bounds are found and are an error of the launch") {
  check_loads_and_stores(bounds_cases(), "bounds");
}

TEST_CASE("misaligned accesses are found and are an error of the launch") {
  check_loads_and_stores(alignment_cases(), "alignment");
}

TEST_CASE("a kernel that uses the host's memory or its variables is found") {
  check_loads_and_stores(host_cases(), "host");
}

TEST_CASE("threads that wait for what nobody will do are found, before any limit of steps") {
  NEEDS_COUNTS();  // without, nobody notices a thread that waits for a flag
  check(wait_cases(), "waits", true);
}

TEST_CASE("a kernel that may overlap the one before it and does not wait is found") {
  check_loads_and_stores(overlap_cases(), "overlap");
}

TEST_CASE("mistakes with copies that are not waited for, barriers, groups and CUB are found") {
  check_loads_and_stores(construct_cases(), "constructs");
}

TEST_CASE("mistakes with the memory and the barriers of a cluster are found") {
  check_loads_and_stores(cluster_cases(), "cluster");
}

TEST_CASE(
    "mistakes with bulk copies, and with stores that another block's barrier counts, are found") {
  check_loads_and_stores(bulk_copy_cases(), "bulk_copy");
}
