/// \file
/// What CUDA's memory model allows: old values, and what no GPU of today needs a fence for.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/cpu_device/device.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/tests/kernels.hpp"
#include "tests/catch.hpp"
#include "tests/gpu_support.hpp"
#include "tests/watch.hpp"

using namespace tests;
using rmsnorm::cpu_device::Launch;

namespace {

/// Launches on y, which is 0, and watches it.
Outcome launch(const std::function<void(float* y)>& kernel, const Floats& y) {
  rmsnorm::take_notes();
  rmsnorm::take_old_loads();
  cudaMemset(y.data, 0, y.buffer.bytes());
  const Outcome outcome = watch({y.named("y")}, [&] { kernel(y.data); });
  CHECK(outcome.at_synchronise == cudaSuccess);
  CHECK(outcome.hazards == std::vector<std::string>());
  return outcome;
}

/// Launches a kernel that is correct, or lacks fences.
template <class Kernel>
Outcome launch(Kernel kernel, Launch at, const Floats& y, bool correct) {
  return launch([&](float* data) { kernel->*at(data, correct); }, y);
}

}  // namespace

TEST_CASE("in an odd order, a value without fences is still the old one when its flag is seen") {
  NEEDS_COUNTS();
  const Floats y(3);
  for (const int order : {0, 1, 2, 3}) {
    CAPTURE(order);
    rmsnorm::change_order(order, nullptr);
    CHECK(launch(hand_over, Launch(2, 1), y, true).seen.polls);
    CHECK(y.values()[2] == 1);
    launch(hand_over, Launch(2, 1), y, false);
    const std::vector<std::string> old = rmsnorm::take_old_loads();
    rmsnorm::change_order(0, nullptr);
    CHECK(y.values()[2] == (order % 2 == 0 ? 1 : 0));
    CHECK(old.empty() == (order % 2 == 0));
    if (!old.empty()) CHECK_THAT(old[0], contains("may read the value here from before the store"));
    CHECK(y.values()[0] == 1);  // memory has the new one
  }
}

TEST_CASE("of two threads that store, fence and load, at least one sees the other's store") {
  NEEDS_COUNTS();
  const Floats y(3);
  for (const int order : {0, 1, 2, 3}) {
    CAPTURE(order);
    rmsnorm::change_order(order, nullptr);
    launch([](float* data) { raise_and_look->*Launch(2, 1)(data, false); }, y);
    rmsnorm::change_order(0, nullptr);
    CHECK(y.values()[2] <= 1);
  }
}

TEST_CASE("of two ranks that store, fence and load, none may see the other's, but for the system") {
  NEEDS_COUNTS();
  const Floats y(3);
  rmsnorm::KnownMemory flags = y.named("y");
  flags.reach = rmsnorm::Reach::peers;
  for (const bool of_system : {false, true}) {
    float most = 0;
    for (const int order : {0, 1, 2, 3}) {
      rmsnorm::change_order(order, nullptr);
      cudaMemset(y.data, 0, y.buffer.bytes());
      watch({flags}, [&] { raise_and_look->*Launch(dim3(1, 2), 1)(y.data, of_system); });
      rmsnorm::change_order(0, nullptr);
      most = std::max(most, y.values()[2]);
    }
    CHECK(most == (of_system ? 1 : 2));
  }
}

TEST_CASE("what a rank does in a peer's memory is counted apart, and so are its signals") {
  NEEDS_COUNTS();
  const Floats of[] = {Floats(32), Floats(std::vector<float>(33))};
  std::vector<rmsnorm::KnownMemory> tensors = {of[0].named("x"), of[1].named("y")};
  for (const int rank : {0, 1}) {
    tensors[static_cast<std::size_t>(rank)].reach = rmsnorm::Reach::peers;
    tensors[static_cast<std::size_t>(rank)].rank = rank;
  }
  const Outcome outcome =
      watch(tensors, [&] { hand_over_to_peer->*Launch(dim3(1, 2), 32)(of[0].data, of[1].data); });
  CHECK(outcome.hazards == std::vector<std::string>());
  CHECK(of[1].values()[31] == 32);
  std::map<std::string, std::int64_t> sectors;
  for (const rmsnorm::LineCount& line : outcome.seen.lines) sectors[line.kind] += line.sectors;
  sectors.erase("poll");  // as many as it takes
  CHECK(
      sectors == std::map<std::string, std::int64_t>{
                     {"barrier", 0},
                     {"global load", 4},
                     {"global store", 4},
                     {"peer load", 4},
                     {"peer store", 4},
                     {"signal", 1}});
}

TEST_CASE("a barrier instead of a fence behind an atomic operation is no mistake, but noted") {
  NEEDS_COUNTS();
  const Floats y(100);
  CHECK_FALSE(launch(last_block_sums, Launch(2, 32), y, true).seen.polls);
  CHECK(rmsnorm::take_notes() == std::vector<std::string>());
  launch(last_block_sums, Launch(2, 32), y, false);
  const std::vector<std::string> notes = rmsnorm::take_notes();
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], contains("before which its thread has called no fence"));
  CHECK(y.values()[99] == 63);
}

TEST_CASE("a shared variable outside of functions is each block's own") {
  const Floats y(64);
  shared_outside->*Launch(2, 32)(y.data);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(rmsnorm::take_hazards() == std::vector<std::string>());
  CHECK(y.values()[0] == 31);
  CHECK(y.values()[63] == 32);
}
