/// \file
/// What the CPU device prints for a grid of access patterns is what is recorded in
/// tests/data/cpu-device-access-patterns.csv. The figure in docs/interactive/coalescing.js is
/// tested against the same file (tests/browser/figure_coalescing.py).

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/cuda_check.hpp"
#include "common/base/observation.hpp"
#include "common/programs/trace_report.hpp"
#include "common/records/csv.hpp"
#include "tests/access_patterns.hpp"
#include "tests/catch.hpp"
#include "tests/repository.hpp"

namespace fs = std::filesystem;
using namespace rmsnorm;
using tests::contains;
using tests::kLanes;

namespace {

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
std::array<int, kLanes> permutation(int number) {
  std::array<int, kLanes> lanes;
  std::iota(lanes.begin(), lanes.end(), 0);
  auto state = static_cast<std::uint32_t>(number);
  for (std::uint32_t i = kLanes - 1; i > 0; --i) {
    state = state * 1664525u + 1013904223u;
    std::swap(lanes[i], lanes[(state >> 16) % (i + 1)]);
  }
  return lanes;
}

/// Where each lane's vector begins, in floats.
std::array<int, kLanes> addresses_of(const Access& access) {
  const int floats = access.bytes / 4;
  const std::array<int, kLanes> shuffled = permutation(access.parameter);
  std::array<int, kLanes> at;
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

/// Memory on the device.
template <class T>
class Array {
 public:
  explicit Array(int elements) : bytes_(static_cast<std::size_t>(elements) * sizeof(T)) {
    cuda_check(cudaMalloc(&data_, bytes_), "allocating");
    cuda_check(cudaMemset(data_, 0, bytes_), "clearing");
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return data_; }
  KnownMemory named(const std::string& name) const { return {name, data_, bytes_, sizeof(T)}; }

 private:
  T* data_ = nullptr;
  std::size_t bytes_;
};

/// The words of the printed line of this kind and tensor.
std::vector<std::string> printed(
    const Observation& seen, const std::string& kind, const std::string& what) {
  const std::string table = line_table(
      {.operation = "",
       .implementation = "",
       .regime = "",
       .rows = 1,
       .hidden = 1,
       .observation = seen});
  for (const std::string& line : tests::lines_in(table)) {
    if (line.find(kind) == std::string::npos || line.find(" " + what + " ") == std::string::npos) {
      continue;
    }
    std::istringstream words(line.substr(line.find(kind) + kind.size()));
    std::vector<std::string> all;
    for (std::string word; words >> word;) all.push_back(word);
    return all;  // what, requests, lanes, then the costs
  }
  return {};
}

/// Watches a launch, and gives the printed line; and the lane for which the device refused it, or
/// "" if it did not.
template <class Launch>
std::pair<std::vector<std::string>, std::string> watch(
    const std::vector<KnownMemory>& tensors, const std::string& kind, const std::string& what,
    Launch launch) {
  take_hazards();
  start_observing(tensors);
  launch();
  const cudaError_t error = cudaDeviceSynchronize();
  cudaGetLastError();
  const Observation seen = stop_observing();
  const std::vector<std::string> hazards = take_hazards();
  if (error == cudaSuccess) {
    CHECK(hazards.empty());
    return {printed(seen, kind, what), ""};
  }
  CHECK(error == cudaErrorMisalignedAddress);
  REQUIRE_FALSE(hazards.empty());
  CHECK_THAT(hazards[0], contains("at an address that is no multiple of"));
  const std::string begin = "thread ";
  const std::size_t at = hazards[0].find(begin) + begin.size();
  return {{}, hazards[0].substr(at, hazards[0].find(' ', at) - at)};
}

/// A row of the file: what the CPU device says of an access, in both memories.
std::vector<std::string> row_of(const Access& access) {
  const std::array<int, kLanes> lanes = addresses_of(access);
  const int floats = *std::max_element(lanes.begin(), lanes.end()) + access.bytes / 4;
  const Array<float> x(floats);
  const Array<float> y(kLanes);
  const Array<int> at(kLanes);
  cuda_check(cudaMemcpy(at.data(), lanes.data(), sizeof(lanes), cudaMemcpyHostToDevice), "copying");
  const std::vector<KnownMemory> tensors = {x.named("x"), y.named("y"), at.named("at")};
  const auto [global, global_lane] = watch(tensors, "global load", "x", [&] {
    tests::load_from_global(access.bytes, x.data(), at.data(), y.data());
  });
  const auto [shared, shared_lane] = watch(tensors, "shared load", "staged", [&] {
    tests::load_from_shared(access.bytes, floats, at.data(), y.data());
  });
  // Not the same lane: behind the barrier, the last to arrive goes on first.
  CHECK(global_lane.empty() == shared_lane.empty());
  for (const std::string& lane : {global_lane, shared_lane}) {
    if (!lane.empty()) CHECK(lanes[std::stoul(lane)] * 4 % access.bytes != 0);
  }

  std::vector<std::string> row = {
      access.pattern, std::to_string(access.parameter), std::to_string(access.bytes),
      std::to_string(access.offset)};
  if (global_lane.empty()) {
    REQUIRE(global.size() >= 5);
    REQUIRE(shared.size() >= 4);
    CHECK(global[1] == "1");   // one request,
    CHECK(global[2] == "32");  // of all lanes
    CHECK(shared[1] == "1");
    CHECK(shared[2] == "32");
    row.insert(row.end(), {global[3], global[4], shared[3], ""});
  } else {
    row.insert(row.end(), {"", "", "", global_lane});
  }
  return row;
}

}  // namespace

TEST_CASE("what the CPU device prints for a grid of access patterns is what is recorded") {
  if (!can_observe()) SKIP_TEST("this build cannot watch kernels");
  std::vector<std::vector<std::string>> now;
  for (const Access& access : grid()) {
    CAPTURE(access.pattern, access.parameter, access.bytes, access.offset);
    now.push_back(row_of(access));
  }

  const fs::path recorded = tests::top() / "tests/data/cpu-device-access-patterns.csv";
  const fs::path written =
      fs::path(RMSNORM_LESSONS_DIR).parent_path() / "tests/cpu-device-access-patterns.csv";
  write_records(written, kHeader, now);
  INFO("If the device counts otherwise on purpose: cp " << written << " " << recorded);
  CHECK(tests::lines_of(written) == tests::lines_of(recorded));
}
