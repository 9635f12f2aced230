/// \file
/// What the CPU device prints for a grid of access patterns is what is recorded in
/// tests/data/cpu-device-access-patterns.csv. The figure in docs/interactive/coalescing.js is
/// tested against the same file (tests/browser/figure_coalescing.py).

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/tests/kernels.hpp"
#include "common/programs/trace_report.hpp"
#include "common/records/csv.hpp"
#include "tests/gpu_support.hpp"
#include "tests/repository.hpp"
#include "tests/watch.hpp"

namespace fs = std::filesystem;
using namespace rmsnorm;
using namespace tests;
using rmsnorm::cpu_device::Launch;

namespace {

constexpr int kLanes = 32;
const std::string kHeader =
    "pattern,parameter,bytes,offset,sectors,used,wavefronts,misaligned_lane";

/// Which floats the lanes of a warp load.
struct Access {
  std::string pattern;
  int parameter = 0;  ///< stride in vectors, columns of a row, period, or number of the permutation
  int bytes = 4;      ///< for each lane
  int offset = 0;     ///< of the first, in floats
};

/// A permutation of the lanes for each number, by a generator that is easily written in any
/// language.
Addresses permutation(int number) {
  Addresses lanes{};
  std::iota(lanes.begin(), lanes.begin() + kLanes, 0);
  auto state = static_cast<std::uint32_t>(number);
  for (std::uint32_t i = kLanes - 1; i > 0; --i) {
    state = state * 1664525u + 1013904223u;
    std::swap(lanes[i], lanes[(state >> 16) % (i + 1)]);
  }
  return lanes;
}

/// Where each lane's vector begins, in floats.
Addresses addresses_of(const Access& access) {
  const int floats = access.bytes / 4;
  const Addresses shuffled = permutation(access.parameter);
  Addresses at{};
  for (int lane = 0; lane < kLanes; ++lane) {
    int begin = 0;
    if (access.pattern == "neighbours") begin = lane * floats;
    if (access.pattern == "stride") begin = lane * access.parameter * floats;
    if (access.pattern == "row_a_lane") begin = lane * access.parameter;
    if (access.pattern == "repeated") begin = lane % access.parameter * floats;
    if (access.pattern == "shuffled") begin = shuffled[lane] * floats;
    at[lane] = access.offset + begin;  // "same" begins at 0
  }
  return at;
}

std::vector<Access> grid() {
  const std::vector<std::pair<std::string, std::vector<int>>> parameters = {
      {"neighbours", {0}},
      {"stride", {1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 31, 32, 33, 64}},
      {"row_a_lane",
       {1, 2, 3, 4, 8, 20, 31, 32, 33, 34, 36, 40, 48, 64, 128, 129, 132, 1000, 1024}},
      {"same", {0}},
      {"repeated", {1, 2, 3, 4, 8, 16, 31}},
      {"shuffled", {1, 2, 3, 4, 5, 6, 7, 8, 99}}};
  std::vector<Access> all;
  for (const auto& [pattern, values] : parameters) {
    for (const int value : values) {
      for (const int bytes : {4, 8, 16}) {
        for (const int offset : {0, 1, 2, 4, 7, 8}) {
          all.push_back({pattern, value, bytes, offset});
        }
      }
    }
  }
  return all;
}

/// What is printed of a kind of load behind its tensor's name: requests, lanes, then the costs.
std::vector<std::string> printed(const LaunchCounts& seen, const std::string& kind_and_what) {
  const std::string table = line_table(
      {.operation = "", .implementation = "", .regime = "", .rows = 1, .hidden = 1, .counts = seen},
      100);
  const std::size_t at = table.find(kind_and_what);
  REQUIRE(at != table.npos);
  std::istringstream words(table.substr(at + kind_and_what.size()));
  std::vector<std::string> costs(4);
  for (std::string& cost : costs) words >> cost;
  CHECK(costs[0] == "1");   // one request,
  CHECK(costs[1] == "32");  // of all lanes
  return costs;
}

/// The lane for which the device refused a launch, or "" if it did not.
std::string refused_lane(const Outcome& launch) {
  if (launch.at_synchronise == cudaSuccess) {
    CHECK(launch.hazards.empty());
    return "";
  }
  CHECK(launch.at_synchronise == cudaErrorMisalignedAddress);
  REQUIRE_FALSE(launch.hazards.empty());
  CHECK_THAT(launch.hazards[0], contains("at an address that is no multiple of"));
  const std::string begin = "thread ";
  const std::size_t at = launch.hazards[0].find(begin) + begin.size();
  return launch.hazards[0].substr(at, launch.hazards[0].find(' ', at) - at);
}

/// A row of the file: what the CPU device says of an access to a T, in both memories.
template <class T>
std::vector<std::string> row_of(const Access& access) {
  const Addresses at = addresses_of(access);
  const int floats = *std::max_element(at.begin(), at.end()) + access.bytes / 4;
  const Floats x(floats);
  const Floats y(kLanes);
  const std::vector<KnownMemory> tensors = {x.named("x"), y.named("y")};
  const Outcome global =
      watch(tensors, [&] { load_global<T>->*Launch(1, kLanes)(x.data, at, y.data); });
  const Outcome shared = watch(tensors, [&] {
    const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
    cudaFuncSetAttribute(
        load_shared<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    load_shared<T>->*Launch(1, kLanes, bytes)(floats, at, y.data);
  });
  const std::string lane = refused_lane(global);
  // Not the same lane: behind the barrier, the last to arrive goes on first.
  CHECK(lane.empty() == refused_lane(shared).empty());
  for (const std::string& refused : {lane, refused_lane(shared)}) {
    if (!refused.empty()) CHECK(at[std::stoul(refused)] * 4 % access.bytes != 0);
  }

  std::vector<std::string> row = {
      access.pattern, std::to_string(access.parameter), std::to_string(access.bytes),
      std::to_string(access.offset)};
  if (lane.empty()) {
    const std::vector<std::string> costs = printed(global.seen, "global load  x ");
    const std::string wavefronts = printed(shared.seen, "shared load  staged ")[2];
    row.insert(row.end(), {costs[2], costs[3], wavefronts, ""});
  } else {
    row.insert(row.end(), {"", "", "", lane});
  }
  return row;
}

}  // namespace

TEST_CASE("what the CPU device prints for a grid of access patterns is what is recorded") {
  NEEDS_COUNTS();
  std::vector<std::vector<std::string>> now;
  for (const Access& access : grid()) {
    CAPTURE(access.pattern, access.parameter, access.bytes, access.offset);
    if (access.bytes == 4) now.push_back(row_of<float>(access));
    if (access.bytes == 8) now.push_back(row_of<float2>(access));
    if (access.bytes == 16) now.push_back(row_of<float4>(access));
  }

  const fs::path recorded = top() / "tests/data/cpu-device-access-patterns.csv";
  const fs::path written =
      fs::path(RMSNORM_LESSONS_DIR).parent_path() / "tests/cpu-device-access-patterns.csv";
  write_records(written, kHeader, now);
  INFO("If the device counts otherwise on purpose: cp " << written << " " << recorded);
  CHECK(lines_of(written) == lines_of(recorded));
}
