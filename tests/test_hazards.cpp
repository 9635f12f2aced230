/// \file
/// The CPU device finds the mistakes in tests/hazards, and none in the same kernels without them.

#include <map>
#include <string>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/base/observation.hpp"
#include "tests/catch.hpp"
#include "tests/hazards/cases.hpp"
#include "tests/repository.hpp"

using namespace tests;

namespace {

constexpr int kGuard = 256;  // elements
constexpr int kStride = kGuard + (Memory::kElements + 3) / 4 * 4;

/// x and y, in one piece of memory with guards around both.
class Tensors {
 public:
  Tensors() {
    const int elements = 2 * kStride + kGuard;
    rmsnorm::cuda_check(cudaMalloc(&data_, elements * sizeof(float)), "allocating");
    for (int i = 0; i < elements; ++i) data_[i] = static_cast<float>(i % 10);
    memory_.x = data_ + kGuard;
    memory_.y = data_ + kStride + kGuard;
  }
  ~Tensors() { cudaFree(data_); }
  Tensors(const Tensors&) = delete;
  Tensors& operator=(const Tensors&) = delete;

  Memory memory() const { return memory_; }
  std::vector<rmsnorm::KnownMemory> named() const {
    const std::size_t bytes = Memory::kElements * sizeof(float);
    return {{"x", memory_.x, bytes, sizeof(float)}, {"y", memory_.y, bytes, sizeof(float)}};
  }

 private:
  float* data_ = nullptr;
  Memory memory_{};
};

/// What a launch left behind.
struct Outcome {
  std::vector<std::string> hazards;
  cudaError_t at_launch;
  cudaError_t at_synchronise;
};

Outcome watch(void (*launch)(Memory)) {
  const Tensors tensors;
  rmsnorm::take_hazards();
  rmsnorm::start_observing(tensors.named());
  launch(tensors.memory());
  Outcome outcome;
  outcome.at_launch = cudaGetLastError();
  outcome.at_synchronise = cudaDeviceSynchronize();
  cudaGetLastError();
  rmsnorm::stop_observing();
  outcome.hazards = rmsnorm::take_hazards();
  return outcome;
}

/// "tests/hazards/race.cu:12", the line that ends in "// <-- TAG".
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

void check_wrong(const Case& c, const std::string& file) {
  const Outcome outcome = watch(c.wrong);
  CHECK(outcome.at_launch == cudaSuccess);
  CHECK(outcome.at_synchronise == c.error);
  REQUIRE_FALSE(outcome.hazards.empty());
  const std::string& first = outcome.hazards[0];
  if (!c.at.empty()) CHECK(first.starts_with(place_of(file, c.at) + ": "));
  if (!c.other.empty()) CHECK_THAT(first, contains(" at " + place_of(file, c.other)));
  CHECK_THAT(first, contains("(kernel tests::" + c.kernel));
  CHECK_THAT(first, contains(", block " + c.block + ", thread " + c.thread));
  for (const std::string& part : c.says) CHECK_THAT(first, contains(part));
}

void check_right(const Case& c) {
  const Outcome outcome = watch(c.right);
  CHECK(outcome.at_launch == cudaSuccess);
  CHECK(outcome.at_synchronise == cudaSuccess);
  CHECK(outcome.hazards == std::vector<std::string>());
}

/// The mistake is found, and then the device works as before.
void check(const std::vector<Case>& cases, const std::string& file, bool can_see_wrong) {
  for (const Case& c : cases) {
    DYNAMIC_SECTION(c.name) {
      check_right(c);
      if (!can_see_wrong) continue;
      check_wrong(c, file);
      check_right(c);
    }
  }
}

void check_loads_and_stores(const std::vector<Case>& cases, const std::string& file) {
  check(cases, file, rmsnorm::can_observe());
  if (!rmsnorm::can_observe()) SKIP_TEST("loads and stores are not observed in this build");
}

}  // namespace

TEST_CASE("two threads at the same shared memory without a barrier are found") {
  check_loads_and_stores(race_cases(), "tests/hazards/race.cu");
}

TEST_CASE("threads at different barriers and threads that have left are found") {
  check(barrier_cases(), "tests/hazards/barrier.cu", true);
}

TEST_CASE("masks that are not true and shuffles that leave the warp are found") {
  check(shuffle_cases(), "tests/hazards/shuffle.cu", true);
}

TEST_CASE("temporary storage of cub that is not shared or that two warps share is found") {
  check(temp_storage_cases(), "tests/hazards/temp_storage.cu", true);
}

TEST_CASE("a read of shared memory that nobody has written is found") {
  check_loads_and_stores(unwritten_cases(), "tests/hazards/unwritten.cu");
}

TEST_CASE("accesses out of bounds are found and are an error of the launch") {
  check_loads_and_stores(bounds_cases(), "tests/hazards/bounds.cu");
}

TEST_CASE("misaligned accesses are found and are an error of the launch") {
  check_loads_and_stores(alignment_cases(), "tests/hazards/alignment.cu");
}

TEST_CASE("a kernel that may overlap the one before it and does not wait is found") {
  check_loads_and_stores(overlap_cases(), "tests/hazards/overlap.cu");
}
