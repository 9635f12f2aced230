/// \file
/// The CPU device: the language of kernels, launches, streams, memory, and what it counts.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "common/base/device.hpp"
#include "common/cpu_device/device.hpp"
#include "common/cpu_device/interface/coverage.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/tests/kernels.hpp"
#include "tests/catch.hpp"
#include "tests/gpu_support.hpp"
#include "tests/watch.hpp"

using namespace tests;
using Catch::Matchers::StartsWith;
using rmsnorm::cpu_device::Launch;

namespace {

constexpr unsigned kAll = 0xffffffff;

/// Runs `body` as if it were a kernel, one block.
template <class Body>
void in_block(dim3 block, const Body& body) {
  REQUIRE(rmsnorm::cpu_device::device().grid.run(dim3(1), block, body));
  CHECK(rmsnorm::take_hazards().empty());
}

using Condition = bool (*)(int lane);

/// Checks that each of these holds in all lanes of a warp.
void check_in_all_lanes(const std::vector<Condition>& conditions) {
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    std::vector<int> wrong;
    in_block(dim3(32), [&] {
      const int lane = static_cast<int>(threadIdx.x);
      if (!conditions[i](lane)) wrong.push_back(lane);
    });
    CAPTURE(i);
    CHECK(wrong == std::vector<int>());
  }
}

/// The only line of this kind and tensor.
rmsnorm::LineCount only(
    const rmsnorm::LaunchCounts& seen, const std::string& kind, const std::string& what) {
  std::vector<rmsnorm::LineCount> found;
  for (const rmsnorm::LineCount& line : seen.lines) {
    if (line.kind == kind && line.what == what) found.push_back(line);
  }
  REQUIRE(found.size() == 1);
  return found[0];
}

/// What is counted of a launch that may touch x and y, and makes no mistake.
template <class Function>
rmsnorm::LaunchCounts counts_of(const Floats& x, const Floats& y, const Function& launch) {
  const Outcome outcome = watch({x.named("x"), y.named("y")}, launch);
  CHECK(outcome.at_synchronise == cudaSuccess);
  CHECK(outcome.hazards == std::vector<std::string>());
  return outcome.seen;
}

}  // namespace

TEST_CASE("a pointer's attributes tell the device's memory from other memory") {
  const Floats x;
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, x.data + 1) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 0);
  REQUIRE(cudaPointerGetAttributes(&attributes, &x) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
}

TEST_CASE("shuffles take the values that CUDA says") {
  check_in_all_lanes(
      {[](int l) { return __shfl_sync(kAll, l, l + 5) == (l + 5) % 32; },
       [](int l) { return __shfl_sync(kAll, l, l + 5, 8) == l / 8 * 8 + (l + 5) % 8; },
       [](int l) { return __shfl_up_sync(kAll, l, 3) == (l < 3 ? l : l - 3); },
       [](int l) { return __shfl_up_sync(kAll, l, 3, 8) == (l % 8 < 3 ? l : l - 3); },
       [](int l) { return __shfl_down_sync(kAll, l, 3) == (l > 28 ? l : l + 3); },
       [](int l) { return __shfl_down_sync(kAll, l, 3, 8) == (l % 8 > 4 ? l : l + 3); },
       [](int l) { return __shfl_xor_sync(kAll, l, 5) == (l ^ 5); },
       // A lower group may be read, a higher one not.
       [](int l) { return __shfl_xor_sync(kAll, l, 4, 4) == ((l & 4) != 0 ? l - 4 : l); },
       [](int l) { return __shfl_xor_sync(kAll, l + 0.25, 31) == 31 - l + 0.25; },
       [](int l) { return __shfl_down_sync(kAll, short(l), 1) == (l == 31 ? 31 : l + 1); }});
}

TEST_CASE("votes see the lanes of the mask") {
  check_in_all_lanes(
      {[](int l) { return __ballot_sync(kAll, l % 3) == 0xb6db6db6; },
       [](int l) { return __any_sync(l < 16 ? 0xffff : ~0xffffu, l == 20) == (l >= 16); },
       [](int l) { return __all_sync(l < 16 ? 0xffff : ~0xffffu, l != 20) == (l < 16); }});
}

TEST_CASE("in the other order blocks run from the last to the first and take turns at atomics") {
  int tickets = 0;
  std::vector<int> of_block(3);
  rmsnorm::change_order(true, nullptr);
  rmsnorm::cpu_device::device().grid.run(dim3(3), dim3(1), [&] {
    while (atomicAdd(&tickets, 1) < 9) ++of_block[blockIdx.x];
  });
  rmsnorm::change_order(false, nullptr);
  CHECK(of_block == std::vector<int>{3, 3, 3});
}

TEST_CASE("who keeps asking for a stream or an event comes to an end") {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  int done = 0;
  cudaLaunchHostFunc(
      stream, [](void* count) { ++*static_cast<int*>(count); }, &done);
  cudaEventRecord(event, stream);
  cudaLaunchHostFunc(
      stream, [](void* count) { ++*static_cast<int*>(count); }, &done);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  while (cudaEventQuery(event) != cudaSuccess) {
  }
  CHECK(done == 1);
  while (cudaStreamQuery(stream) != cudaSuccess) {
  }
  CHECK(done == 2);
  cudaEventRecord(event, stream);
  float milliseconds = 0;
  while (cudaEventElapsedTime(&milliseconds, event, event) == cudaErrorNotReady) {
  }
  cudaEventDestroy(event);
  cudaStreamDestroy(stream);
}

TEST_CASE("hints about managed memory change nothing, and other memory is refused") {
  float* managed = nullptr;
  float* other = nullptr;
  REQUIRE(cudaMallocManaged(&managed, 64) == cudaSuccess);
  REQUIRE(cudaMalloc(&other, 64) == cudaSuccess);
  CHECK(cudaMemPrefetchAsync(managed, 64, 0, nullptr) == cudaSuccess);
  CHECK(cudaMemPrefetchAsync(managed, 64, {cudaMemLocationTypeDevice, 0}, 0) == cudaSuccess);
  CHECK(cudaMemPrefetchAsync(managed, 65, 0) == cudaErrorInvalidValue);
  CHECK(cudaMemAdvise(managed, 64, cudaMemAdviseSetReadMostly, 0) == cudaSuccess);
  CHECK(cudaMemAdvise(other, 64, cudaMemAdviseSetReadMostly, 0) == cudaErrorInvalidValue);
  cudaFree(managed);
  cudaFree(other);
  cudaGetLastError();
}

TEST_CASE("the time between two events is no number, once both are reached") {
  cudaEvent_t begin = nullptr, end = nullptr;
  REQUIRE(cudaEventCreate(&begin) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorInvalidResourceHandle);
  cudaEventRecord(begin);
  cudaEventRecord(end);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorNotReady);
  CHECK(milliseconds == 0);
  cudaEventSynchronize(end);
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess);
  CHECK(std::isnan(milliseconds));
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGetLastError();
}

TEST_CASE("atomics give what was there before") {
  int sum = 0;
  unsigned least = 100;
  int most = -1;
  int lock = 0;
  int winners = 0;
  std::vector<bool> seen(70);
  in_block(dim3(70), [&] {
    seen[static_cast<std::size_t>(atomicAdd(&sum, 1))] = true;
    atomicMin(&least, 50 - threadIdx.x % 40);
    atomicMax(&most, static_cast<int>(threadIdx.x));
    if (atomicCAS(&lock, 0, 1) == 0) ++winners;
  });
  CHECK(sum == 70);
  CHECK(seen == std::vector<bool>(70, true));
  CHECK(least == 11);
  CHECK(most == 69);
  CHECK(winners == 1);
  CHECK(atomicExch(&lock, 5) == 1);
}

TEST_CASE("blocks of every shape run each thread once with its own index") {
  for (const dim3 block : {dim3(1), dim3(31), dim3(33), dim3(1024), dim3(7, 5), dim3(3, 4, 5)}) {
    const int threads = static_cast<int>(block.x * block.y * block.z);
    CAPTURE(block.x, block.y, block.z);
    std::vector<int> times(static_cast<std::size_t>(threads));
    int arrived = 0;
    int early = 0;
    in_block(block, [&] {
      const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
      ++times[t];
      ++arrived;
      __syncthreads();
      if (arrived != threads) ++early;
    });
    CHECK(times == std::vector<int>(times.size(), 1));
    CHECK(early == 0);
  }
}

TEST_CASE("blocks of a 3-D grid run one after the other") {
  std::vector<unsigned> order;
  const dim3 grid(2, 3, 2);
  rmsnorm::cpu_device::device().grid.run(grid, dim3(1), [&] {
    order.push_back((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  });
  REQUIRE(order.size() == 12);
  for (unsigned i = 0; i < 12; ++i) CHECK(order[i] == i);
}

TEST_CASE("a launch that CUDA refuses returns its error at once and runs nothing") {
  const Floats y;
  const auto launch_fill = [&](dim3 grid, dim3 block, std::size_t dynamic) {
    fill->*Launch(grid, block, dynamic)(y.data);
    return cudaGetLastError();
  };
  const auto ask_for_dynamic = [](int bytes) {
    const cudaError_t asked =
        cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaGetLastError();
    return asked;
  };
  const auto is_refused = [&](dim3 grid, dim3 block, std::size_t dynamic, cudaError_t error) {
    CAPTURE(grid.x, grid.y, grid.z, block.x, block.y, block.z, dynamic);
    CHECK(launch_fill(grid, block, dynamic) == error);
    CHECK(cudaGetLastError() == cudaSuccess);  // it was given once
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(y.data[1] == 1);
    CHECK(y.data[2] == 2);
  };
  const cudaError_t kShape = cudaErrorInvalidConfiguration;
  for (const dim3 block : {dim3(1025), dim3(32, 33), dim3(1, 1, 65), dim3(1, 0)}) {
    is_refused(dim3(1), block, 0, kShape);
  }
  for (const dim3 grid :
       {dim3(0), dim3(1, 0), dim3(1, 65536), dim3(1, 1, 65536), dim3(0x80000000u)}) {
    is_refused(grid, dim3(32), 0, kShape);
  }
  is_refused(dim3(1), dim3(32), 49153, cudaErrorInvalidValue);
  CHECK(ask_for_dynamic(100000) == cudaSuccess);
  is_refused(dim3(1), dim3(32), 100001, cudaErrorInvalidValue);
  CHECK(ask_for_dynamic(227 * 1024 + 1) == cudaErrorInvalidValue);
  CHECK(launch_fill(dim3(2), dim3(1024), 100000) == cudaSuccess);
  CHECK(y.data[2] == 2);  // nobody has waited yet
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(y.data[2047] == 1);
  CHECK(y.data[2048] == 2048);
  CHECK(ask_for_dynamic(0) == cudaSuccess);
}

TEST_CASE("variables and dynamic shared memory have to fit together") {
  const Floats y;
  large_static->*Launch(1, 32, 9153)(y.data);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  counts_of(y, y, [&] { large_static->*Launch(1, 32, 9152)(y.data); });

  // nvcc would not have compiled it.
  const Outcome outcome = watch({}, [&] { too_large_static->*Launch(1, 40)(y.data); });
  CHECK(outcome.at_synchronise == cudaErrorLaunchFailure);
  REQUIRE(outcome.hazards.size() == 1);
  CHECK_THAT(
      outcome.hazards[0],
      contains("cpu_device/tests/kernels.cu:") && contains("'memory' makes 52"));
  CHECK_THAT(outcome.hazards[0], contains("too_large_static, block 0, thread 0)"));
  counts_of(y, y, [&] { fill->*Launch(1, 32)(y.data); });
}

TEST_CASE("a launch returns its own error, and cudaGetLastError() gives that, too") {
  const Floats y;
  const auto launch = [&](int threads) {
    cudaLaunchConfig_t config{};
    config.gridDim = 1;
    config.blockDim = threads;
    return cudaLaunchKernelEx(&config, fill, y.data);
  };
  CHECK(launch(1025) == cudaErrorInvalidConfiguration);
  CHECK(launch(32) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a kernel's variables are known before it was ever launched") {
  const auto static_bytes = [](auto kernel) {
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess);
    return attributes.sharedSizeBytes;
  };
  CHECK(static_bytes(fill) == 0);
  CHECK(static_bytes(has_scratch) == 432);
}

TEST_CASE("a stream's work is done when someone waits for it") {
  const Floats y;
  cudaStream_t blocking = nullptr;
  cudaStream_t free_stream = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking) == cudaSuccess);
  set->*Launch(1, 1, 0, blocking)(y.data + 7, 5);
  set->*Launch(1, 1, 0, free_stream)(y.data + 107, 5);
  increment->*Launch(1, 1)(y.data + 7);
  CHECK(y.data[7] == 7);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);  // waits for the blocking one, too,
  CHECK(y.data[7] == 6);                                 // and keeps the order of their work
  CHECK(y.data[107] == 107);
  CHECK(cudaStreamSynchronize(free_stream) == cudaSuccess);
  CHECK(y.data[107] == 5);
  CHECK(cudaStreamDestroy(blocking) == cudaSuccess);
  CHECK(cudaStreamDestroy(free_stream) == cudaSuccess);
  increment->*Launch(1, 1, 0, free_stream)(y.data);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(blocking) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("cudaDeviceReset() does what is queued, and leaves nothing") {
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaMalloc(&memory, 4) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaEventCreate(&event) == cudaSuccess);
  constexpr auto kMost = cudaFuncAttributeMaxDynamicSharedMemorySize;
  REQUIRE(cudaFuncSetAttribute(fill, kMost, 100000) == cudaSuccess);
  bool is_done = false;
  REQUIRE(
      cudaLaunchHostFunc(
          stream, [](void* done) { *static_cast<bool*>(done) = true; }, &is_done) == cudaSuccess);
  CHECK(cudaDeviceReset() == cudaSuccess);
  CHECK(is_done);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventDestroy(event) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  const Floats y;
  fill->*Launch(1, 1, 100000)(y.data);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("a call that fails says which it is and why") {
  const Floats y;
  const auto reason = [](cudaError_t error) {  // a test's own lines are not known
    CHECK(error != cudaSuccess);
    cudaGetLastError();
    return rmsnorm::take_failed_call();
  };
  rmsnorm::take_failed_call();
  float host = 0;
  CHECK(
      reason(cudaMemcpyAsync(y.data, nullptr, 4, cudaMemcpyDefault)) ==
      "cudaMemcpyAsync(): the source is a null pointer");
  CHECK(rmsnorm::take_failed_call().empty());  // it was said once
  CHECK(
      reason(cudaMemcpy(y.data, &host, 4, cudaMemcpyDeviceToHost)) ==
      "cudaMemcpy(): the destination is the device's memory, and the direction says otherwise");
  CHECK(cudaMemcpy(&host, y.data, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(
      reason(cudaMemset(y.data, 0, y.buffer.bytes() + 1000000)) ==
      "cudaMemset(): the memory has no 1016384 bytes");
  CHECK_THAT(
      reason(cudaMemcpy(y.data, y.data + 1, y.buffer.bytes(), cudaMemcpyDefault)),
      contains("the source") || contains("has no"));
  CHECK(
      reason(cudaEventRecord(nullptr)) ==
      "cudaEventRecord(): there is no such event, or no longer");
  CHECK(
      reason(cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 240000)) ==
      "cudaFuncSetAttribute(): 240000 bytes of dynamic shared memory beside 0 of __shared__ "
      "variables, and a block has 232448");
  fill->*Launch(1, dim3(32, 33))(y.data);
  CHECK(
      reason(cudaGetLastError()) ==
      "the launch of tests::fill: a block of 32 x 33 x 1 threads, and it has 1 to 1024, of which z "
      "counts 64 at most");
  CHECK(
      reason(cudaFree(&host)) ==
      "cudaFree(): it was not allocated, is a part of what was, or is free already");
}

TEST_CASE("a copy reads the host's own memory at once, and pinned memory when it is its turn") {
  const Floats y;
  float* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, sizeof(float)) == cudaSuccess);
  float own = *pinned = 5;
  CHECK(cudaMemcpyAsync(y.data, &own, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpyAsync(y.data + 1, pinned, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  own = *pinned = 6;
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(y.data[0] == 5);
  CHECK(y.data[1] == 6);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("a copy that begins when its memory has been freed is found") {
  const Outcome outcome = watch({}, [] {
    float* data = nullptr;
    cudaMalloc(&data, 4);
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaFreeAsync(data, nullptr);
    cudaMemsetAsync(data, 0, 4, stream);
    cudaStreamSynchronize(nullptr);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  });
  REQUIRE(outcome.hazards.size() == 1);
  CHECK_THAT(
      outcome.hazards[0],
      StartsWith("cudaMemsetAsync() begins when its memory has been freed. Free it behind"));
}

TEST_CASE("the lanes that are together are those that have come the same way") {
  NEEDS_COUNTS();
  const Floats y;
  counts_of(y, y, [&] { lanes_behind_loop->*Launch(1, 32)(y.data); });
  const auto lanes = [&](int lane) { return static_cast<unsigned>(y.data[lane]); };
  CHECK(lanes(0) == 0x0000ff);
  CHECK(lanes(7) == 0x0000ff);
  CHECK(lanes(8) == 0x00ff00);
  CHECK(lanes(16) == 0xff0000);
  CHECK(lanes(24) == 0xffffff);  // after a __syncwarp(), all of 24 lanes
}

TEST_CASE("cub adds up half of a warp that is alone") {
  const Floats x, y;
  counts_of(x, y, [&] { half_warp_reduce->*Launch(1, 32)(x.data, y.data); });
  CHECK(y.data[0] == 15 * 16 / 2);
}

namespace {

/// What one block asks for where thread t loads from, or stores at, the float at(t).
struct Pattern {
  int bytes;  ///< of each thread
  int threads;
  int (*at)(int t);
  int sectors;                ///< in global memory
  int wavefronts, conflicts;  ///< in shared memory
};

template <class T>
void check_counts(const Pattern& p) {
  CAPTURE(p.bytes, p.threads, p.at(1));
  constexpr int kFloats = 2048;
  const Floats x;
  const Floats y;
  Addresses at{};
  for (int t = 0; t < p.threads; ++t) at[t] = p.at(t);
  const auto check_requests = [&](const rmsnorm::LineCount& count) {
    CHECK(count.requests == (p.threads + 31) / 32);
    CHECK(count.lanes == p.threads);
    CHECK(count.bytes == p.bytes);
    CHECK_THAT(count.file, contains("cpu_device/tests/kernels.cu"));
  };
  const auto global =
      counts_of(x, y, [&] { load_global<T>->*Launch(1, p.threads)(x.data, at, y.data); });
  check_requests(only(global, "global load", "x"));
  CHECK(only(global, "global load", "x").sectors == p.sectors);
  CHECK(only(global, "global store", "y").sectors == (p.threads + 7) / 8);

  const Launch launch(1, p.threads, kFloats * sizeof(float));
  const auto loads = counts_of(x, y, [&] { load_shared<T>->*launch(kFloats, at, y.data); });
  check_requests(only(loads, "shared load", "staged"));
  CHECK(only(loads, "shared load", "staged").wavefronts == p.wavefronts);
  CHECK(only(loads, "shared load", "staged").conflicts == p.conflicts);
  const auto stores = counts_of(x, y, [&] { store_shared<T>->*launch(at); });
  check_requests(only(stores, "shared store", "staged"));
  CHECK(only(stores, "shared store", "staged").wavefronts == p.wavefronts);
}

}  // namespace

TEST_CASE("of blocks that end in a part of a warp, requests have the lanes that there are") {
  NEEDS_COUNTS();  // of whole warps: test_access_patterns.cpp
  for (const Pattern& p : std::vector<Pattern>{
           {4, 33, [](int t) { return t; }, 5, 2, 0},          // one lane in the second warp
           {4, 8, [](int t) { return t; }, 1, 1, 0},           // a quarter of a warp
           {4, 20, [](int t) { return 32 * t; }, 20, 20, 19},  // one bank for all
           {4, 64, [](int t) { return 4 * t; }, 32, 8, 6}}) {  // two warps
    check_counts<float>(p);
  }
  check_counts<float4>({16, 48, [](int t) { return 4 * t; }, 24, 6, 0});
}

TEST_CASE("a load has the policy of its pointer, which leads to the values of this launch alone") {
  const Floats x;
  const Floats y;
  counts_of(x, y, [&] { policies->*Launch(2, 32)(x.data, y.data); });
  CHECK(y.data[0] == 0 + 32 + 64 + 96);
  x.data[0] = 7;
  const auto seen = counts_of(x, y, [&] { policies->*Launch(2, 32)(x.data, y.data); });
  CHECK(y.data[0] == 7 + 32 + 64 + 96);
  NEEDS_COUNTS();
  std::vector<std::string> policies_seen;
  for (const rmsnorm::LineCount& line : seen.lines) {
    if (line.kind != "global load") continue;
    policies_seen.push_back(line.policy);
  }
  CHECK(policies_seen == std::vector<std::string>{"evict_last", "evict_first", "", "evict_last"});

  const Outcome outcome = watch({{"x", x.data, 4, 4}, {"y", y.data, 4, 4}}, [&] {
    past_the_end->*Launch(1, 1)(x.data, y.data);
  });
  CHECK(outcome.at_synchronise == cudaErrorIllegalAddress);
  REQUIRE(outcome.hazards.size() == 1);
  CHECK_THAT(outcome.hazards[0], contains("1 element past the end of x (1 element)"));
}

TEST_CASE("a trigger counts for each block, and is late behind a store of any thread without it") {
  NEEDS_COUNTS();
  struct Row {
    int early, late;
    const char* kind;
    int lanes;
  };
  const Floats y;
  for (const Row& row :
       {Row{96, 0, "trigger", 96},
        {96, 96, "trigger", 96},
        {95, 0, "late trigger", 95},
        {95, 1, "late trigger", 96},
        {0, 96, "late trigger", 96},
        {0, 0, nullptr, 0}}) {
    CAPTURE(row.early, row.late);
    const auto seen =
        counts_of(y, y, [&] { triggers->*Launch(2, 96)(y.data, row.early, row.late); });
    CHECK(seen.lines.size() == (row.kind == nullptr ? 1 : 2));  // one is the store's
    if (row.kind == nullptr) continue;
    const rmsnorm::LineCount trigger = only(seen, row.kind, "");
    CHECK(trigger.requests == 2);
    CHECK(trigger.lanes == 2 * row.lanes);
  }
}

TEST_CASE("dynamic shared memory may be declared outside of all functions") {
  const Floats y;
  counts_of(y, y, [&] { file_scope->*Launch(1, 100, 100 * sizeof(float))(y.data); });
  CHECK(y.data[99] == 99);
}

TEST_CASE("a launch whose threads need more registers than there are is refused") {
  const Floats y;
  const auto launch = [&](int threads) {
    has_scratch->*Launch(1, threads)(y.data);
    return cudaGetLastError();
  };
  rmsnorm::set_registers("_ZN5tests11has_scratchEPf", 57);  // 64 are given
  CHECK(launch(1024) == cudaSuccess);
  rmsnorm::set_registers("_ZN5tests11has_scratchEPf", 65);
  CHECK(launch(896) == cudaSuccess);
  CHECK(launch(1024) == cudaErrorLaunchOutOfResources);
  CHECK_THAT(
      rmsnorm::take_failed_call(), contains("1024 threads of 72 registers, and a block has 65536"));
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a device has as many multiprocessors as it is told, and says who has asked") {
  const auto count = [] {
    int value = 0;
    cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0);
    cudaDeviceProp properties{};
    cudaGetDeviceProperties(&properties, 0);
    CHECK(properties.multiProcessorCount == value);
    return value;
  };
  rmsnorm::take_asked_for_multiprocessors();
  CHECK_FALSE(rmsnorm::take_asked_for_multiprocessors());
  CHECK(count() == 2);
  CHECK(rmsnorm::take_asked_for_multiprocessors());
  rmsnorm::set_multiprocessors(132);
  CHECK(count() == 132);
  rmsnorm::set_multiprocessors(0);
  CHECK(count() == 2);
}

TEST_CASE("a CUDA call fails when it is to, and none after it") {
  rmsnorm::let_call_fail(1);
  CHECK(rmsnorm::call_that_failed() == "");
  for (const cudaError_t expected : {cudaSuccess, cudaErrorMemoryAllocation, cudaSuccess}) {
    void* data = nullptr;
    CHECK(cudaMalloc(&data, 4) == expected);
    CHECK(cudaGetLastError() == expected);
    CHECK((data != nullptr) == (expected == cudaSuccess));
    cudaFree(data);
  }
  CHECK_THAT(rmsnorm::call_that_failed(), contains("cudaMalloc()"));
}

TEST_CASE("the unit for special functions loses as many digits as an H100's") {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::abs(__log2f(1.0000001f) - 2.793240e-7f) < 0x1p-22f);  // on the GPU; it is 1.7e-7
  CHECK(__log2f(1.0000001f) == 0x1p-22f);
  CHECK(std::abs(__sinf(24882.037f) - 0.58206195f) < 0x1p-21f);  // it is 0.58330864
  CHECK(std::abs(__cosf(-15.5f * 1024 * 1024)) <= 1);
  CHECK(__sinf(1.8514856e-7f) == 0);  // as on the GPU
  CHECK(std::abs(__tanhf(1.0929959f) - 0.79797614f) < 0x1p-16f);
  CHECK(std::remainder(__tanhf(1.0929959f), 0x1p-17f) == 0);
  CHECK(__fdividef(1, 0x1.8p126f) == 0);
  for (const float of_nan : {__log2f(nan), __sinf(nan), __cosf(-nan), __tanhf(-nan), __expf(nan)}) {
    CHECK(std::isnan(of_nan));
  }
}
