/// \file
/// The CPU device: the language of kernels, launches, streams, memory, and what it counts.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "common/base/observation.hpp"
#include "common/cpu_device/block.hpp"
#include "tests/catch.hpp"
#include "tests/hazards/run_hazard.hpp"

using namespace tests;

namespace {

constexpr unsigned kAll = 0xffffffff;

/// Memory of the device that starts with 0, 1, 2, ...
struct Floats {
  static constexpr int kSize = 4096;
  float* data = nullptr;
  Floats() {
    REQUIRE(cudaMalloc(&data, kSize * sizeof(float)) == cudaSuccess);
    for (int i = 0; i < kSize; ++i) data[i] = static_cast<float>(i);
  }
  ~Floats() { cudaFree(data); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
};

/// Runs `body` as if it were a kernel, one block.
template <class Body>
void in_block(dim3 block, const Body& body) {
  REQUIRE(rmsnorm::cpu_device::block_runner().run(dim3(1), block, body));
  CHECK(rmsnorm::take_hazards().empty());
}

/// What each lane of a warp gets from `body`.
template <class T, class Body>
std::vector<T> lanes(const Body& body) {
  std::vector<T> results(32);
  in_block(dim3(32), [&] { results[threadIdx.x] = body(static_cast<int>(threadIdx.x)); });
  return results;
}

/// The only line of this kind and tensor.
rmsnorm::LineCount only(
    const rmsnorm::Observation& seen, const std::string& kind, const std::string& what) {
  std::vector<rmsnorm::LineCount> found;
  for (const rmsnorm::LineCount& line : seen.lines) {
    if (line.kind == kind && line.what == what) found.push_back(line);
  }
  REQUIRE(found.size() == 1);
  return found[0];
}

/// Launches, waits, and says what was counted.
template <class Launch>
rmsnorm::Observation observe(const Floats& x, const Floats& y, const Launch& launch) {
  rmsnorm::take_hazards();
  const std::size_t bytes = Floats::kSize * sizeof(float);
  rmsnorm::start_observing({{"x", x.data, bytes, 4}, {"y", y.data, bytes, 4}});
  launch();
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  const rmsnorm::Observation seen = rmsnorm::stop_observing();
  CHECK(rmsnorm::take_hazards() == std::vector<std::string>());
  return seen;
}

}  // namespace

TEST_CASE("a funnel shift takes 32 of 64 bits, by the last five bits of the distance") {
  CHECK(__funnelshift_r(0x89abcdef, 0x01234567, 0) == 0x89abcdef);
  CHECK(__funnelshift_r(0x89abcdef, 0x01234567, 16) == 0x456789ab);
  CHECK(__funnelshift_r(0x89abcdef, 0x01234567, 31) == 0x02468acf);
  CHECK(__funnelshift_r(0x89abcdef, 0x01234567, 32) == 0x89abcdef);
}

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
  const auto shfl = lanes<int>([](int l) { return __shfl_sync(kAll, 10 * l, l + 5); });
  const auto group = lanes<int>([](int l) { return __shfl_sync(kAll, 10 * l, l + 5, 8); });
  const auto up = lanes<int>([](int l) { return __shfl_up_sync(kAll, l, 3); });
  const auto up8 = lanes<int>([](int l) { return __shfl_up_sync(kAll, l, 3, 8); });
  const auto down = lanes<int>([](int l) { return __shfl_down_sync(kAll, l, 3); });
  const auto down8 = lanes<int>([](int l) { return __shfl_down_sync(kAll, l, 3, 8); });
  const auto with = lanes<int>([](int l) { return __shfl_xor_sync(kAll, l, 5); });
  const auto xor4 = lanes<int>([](int l) { return __shfl_xor_sync(kAll, l, 4, 4); });
  const auto wide = lanes<double>([](int l) { return __shfl_xor_sync(kAll, l + 0.25, 31); });
  const auto half = lanes<short>([](int l) { return __shfl_down_sync(kAll, short(l), 1); });
  for (int l = 0; l < 32; ++l) {
    CAPTURE(l);
    const int first = l / 8 * 8;
    CHECK(shfl[l] == 10 * ((l + 5) % 32));
    CHECK(group[l] == 10 * (first + (l + 5) % 8));
    CHECK(up[l] == (l < 3 ? l : l - 3));
    CHECK(up8[l] == (l - first < 3 ? l : l - 3));
    CHECK(down[l] == (l > 28 ? l : l + 3));
    CHECK(down8[l] == (l - first > 4 ? l : l + 3));
    CHECK(with[l] == (l ^ 5));
    // A lower group may be read, a higher one not.
    CHECK(xor4[l] == ((l & 4) != 0 ? l - 4 : l));
    CHECK(wide[l] == 31 - l + 0.25);
    CHECK(half[l] == (l == 31 ? 31 : l + 1));
  }
}

TEST_CASE("votes see the lanes of the mask") {
  const auto ballot = lanes<unsigned>([](int l) { return __ballot_sync(kAll, l % 3); });
  const auto any =
      lanes<int>([](int l) { return __any_sync(l < 16 ? 0xffff : ~0xffffu, l == 20); });
  const auto all =
      lanes<int>([](int l) { return __all_sync(l < 16 ? 0xffff : ~0xffffu, l != 20); });
  unsigned expected = 0;
  for (unsigned l = 0; l < 32; ++l) expected |= (l % 3 != 0 ? 1u : 0u) << l;
  for (int l = 0; l < 32; ++l) {
    CHECK(ballot[l] == expected);
    CHECK((any[l] != 0) == (l >= 16));
    CHECK((all[l] != 0) == (l < 16));
  }
}

TEST_CASE("masks that overlap may wait in a chain") {
  int order = 0;
  in_block(dim3(3), [&] {
    if (threadIdx.x == 1 || threadIdx.x == 2) __syncwarp(0b110);
    if (threadIdx.x < 2) __syncwarp(0b011);
    ++order;
  });
  CHECK(order == 3);
}

TEST_CASE("atomics give what was there before") {
  int sum = 0;
  unsigned least = 100;
  float most = -1;
  int lock = 0;
  int winners = 0;
  std::vector<bool> seen(70);
  in_block(dim3(70), [&] {
    seen[static_cast<std::size_t>(atomicAdd(&sum, 1))] = true;
    atomicMin(&least, 50 - threadIdx.x % 40);
    atomicMax(&most, static_cast<float>(threadIdx.x));
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
  rmsnorm::cpu_device::block_runner().run(grid, dim3(1), [&] {
    order.push_back((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  });
  REQUIRE(order.size() == 12);
  for (unsigned i = 0; i < 12; ++i) CHECK(order[i] == i);
}

TEST_CASE("a launch that CUDA refuses returns its error at once and runs nothing") {
  const Floats y;
  const auto is_refused = [&](dim3 grid, dim3 block, std::size_t dynamic, cudaError_t error) {
    CAPTURE(grid.x, grid.y, grid.z, block.x, block.y, block.z, dynamic);
    CHECK(launch_fill(grid, block, dynamic, y.data) == error);
    CHECK(cudaGetLastError() == cudaSuccess);  // it was given once
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(y.data[1] == 1);
    CHECK(y.data[2] == 2);
  };
  const cudaError_t kShape = cudaErrorInvalidConfiguration;
  for (const dim3 block : {dim3(1025), dim3(32, 33), dim3(1, 1, 65), dim3(0), dim3(1, 0)}) {
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
  CHECK(launch_fill(dim3(2), dim3(1024), 100000, y.data) == cudaSuccess);
  CHECK(y.data[2] == 2);  // nobody has waited yet
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(y.data[2047] == 1);
  CHECK(y.data[2048] == 2048);
  CHECK(forget_dynamic() == cudaSuccess);
}

TEST_CASE("variables and dynamic shared memory have to fit together") {
  const Floats y;
  rmsnorm::take_hazards();
  CHECK(launch_large_static(9153, y.data) == cudaErrorInvalidValue);
  CHECK(launch_large_static(9152, y.data) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(rmsnorm::take_hazards().empty());

  launch_too_large_static(y.data);  // nvcc would not have compiled it
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  cudaGetLastError();
  const std::vector<std::string> found = rmsnorm::take_hazards();
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], contains("tests/hazards/launch.cu:"));
  CHECK_THAT(found[0], contains("'memory' makes 52"));
  CHECK_THAT(found[0], contains("too_large_static, block 0, thread 0)"));
  CHECK(launch_fill(dim3(1), dim3(32), 0, y.data) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a kernel's variables are known before it was ever launched") {
  CHECK(static_bytes_of_none() == 0);
  CHECK(static_bytes_of_template() == 400);
  CHECK(static_bytes_of_other_template() == 432);
}

TEST_CASE("a stream's work is done when someone waits for it") {
  const Floats y;
  cudaStream_t blocking = nullptr;
  cudaStream_t free_stream = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking) == cudaSuccess);
  launch_fill(dim3(1), dim3(8), 0, y.data, blocking);
  launch_fill(dim3(1), dim3(8), 0, y.data + 100, free_stream);
  launch_fill(dim3(1), dim3(8), 0, y.data + 200);
  CHECK(y.data[7] == 7);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);  // waits for the blocking one, too
  CHECK(y.data[7] == 1);
  CHECK(y.data[107] == 107);
  CHECK(y.data[207] == 1);
  CHECK(cudaStreamSynchronize(free_stream) == cudaSuccess);
  CHECK(y.data[107] == 1);
  CHECK(cudaStreamDestroy(blocking) == cudaSuccess);
  CHECK(cudaStreamDestroy(free_stream) == cudaSuccess);
  CHECK(launch_fill(dim3(1), dim3(8), 0, y.data, free_stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(blocking) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("copies and fills refuse what is no memory") {
  const Floats y;
  float host[4] = {5, 6, 7, 8};
  CHECK(cudaMemcpy(y.data, host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(y.data[3] == 8);
  CHECK(cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaMemset(y.data, 0, 8) == cudaSuccess);
  CHECK(y.data[1] == 0);
  CHECK(y.data[2] == 7);
  CHECK(cudaMemset(host, 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(host, 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaFree(host) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("cub's reductions add everything up") {
  const Floats x;
  const Floats y;
  launch_warp_reduce(x.data, y.data);
  launch_block_reduce(x.data, y.data + 1);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(y.data[0] == 31 * 32 / 2);
  CHECK(y.data[1] == 95 * 96 / 2);
  CHECK(rmsnorm::take_hazards() == std::vector<std::string>());
}

TEST_CASE("sectors are those that the lanes of a request touch") {
  if (!rmsnorm::can_observe()) SKIP_TEST("loads and stores are not observed in this build");
  struct Pattern {
    int threads, stride, start, requests, sectors;
  };
  const Floats x;
  const Floats y;
  for (const Pattern& p : std::vector<Pattern>{
           {32, 1, 0, 1, 4},    // 128 bytes
           {32, 2, 0, 1, 8},    // every second element
           {32, 8, 0, 1, 32},   // a sector for each lane
           {32, 32, 0, 1, 32},  // no more than that
           {32, 0, 0, 1, 1},    // all the same
           {32, 1, 1, 1, 5},    // begins in the middle of a sector
           {33, 1, 0, 2, 5},    // one lane in the second warp
           {8, 1, 0, 1, 1}}) {
    CAPTURE(p.threads, p.stride, p.start);
    const auto seen =
        observe(x, y, [&] { launch_strided(x.data, y.data, p.threads, p.stride, p.start); });
    const rmsnorm::LineCount load = only(seen, "global load", "x");
    CHECK(load.requests == p.requests);
    CHECK(load.lanes == p.threads);
    CHECK(load.bytes == 4);
    CHECK(load.sectors == p.sectors);
    CHECK_THAT(load.file, contains("tests/hazards/launch.cu"));
    CHECK(only(seen, "global store", "y").sectors == (p.threads + 7) / 8);
  }
}

TEST_CASE("wavefronts are the passes through the banks") {
  if (!rmsnorm::can_observe()) SKIP_TEST("loads and stores are not observed in this build");
  struct Pattern {
    int threads, stride, wavefronts, conflicts;
  };
  const Floats x;
  const Floats y;
  for (const Pattern& p : std::vector<Pattern>{
           {32, 1, 1, 0},
           {32, 2, 2, 1},
           {32, 32, 32, 31},
           {32, 33, 1, 0},
           {20, 32, 20, 19},
           {64, 4, 8, 6}}) {
    CAPTURE(p.threads, p.stride);
    const auto seen = observe(x, y, [&] { launch_strided_shared(y.data, p.threads, p.stride); });
    const rmsnorm::LineCount load = only(seen, "shared load", "row");
    CHECK(load.wavefronts == p.wavefronts);
    CHECK(load.conflicts == p.conflicts);
    CHECK(only(seen, "shared store", "row").wavefronts == p.wavefronts);
  }
}

TEST_CASE("a vector is one request of 16 bytes a lane") {
  if (!rmsnorm::can_observe()) SKIP_TEST("loads and stores are not observed in this build");
  const Floats x;
  const Floats y;
  const auto seen = observe(x, y, [&] { launch_vectors(x.data, y.data, 48); });
  const rmsnorm::LineCount load = only(seen, "global load", "x");
  CHECK(load.bytes == 16);
  CHECK(load.requests == 2);
  CHECK(load.lanes == 48);
  CHECK(load.sectors == 24);
  const rmsnorm::LineCount store = only(seen, "shared store", "staged");
  CHECK(store.requests == 2);
  CHECK(store.wavefronts == 6);  // a quarter of a warp at a time
  CHECK(store.conflicts == 0);
}

TEST_CASE("a load has the cache policy of the pointer that it goes through") {
  const Floats x;
  const Floats y;
  const auto seen = observe(x, y, [&] { launch_policies(x.data, y.data); });
  CHECK(y.data[1] == 1 + 33 + 65);
  if (!rmsnorm::can_observe()) SKIP_TEST("loads and stores are not observed in this build");
  std::vector<std::string> policies;
  for (const rmsnorm::LineCount& line : seen.lines) {
    if (line.kind != "global load") continue;
    CHECK(line.what == "x");
    CHECK(line.sectors == 2 * 4);
    policies.push_back(line.policy);
  }
  CHECK(policies == std::vector<std::string>{"evict_last", "evict_first", ""});
  CHECK(only(seen, "global store", "y").policy == "");
}

TEST_CASE("a policy leads to the values of this launch and to no other memory") {
  const Floats x;
  const Floats y;
  x.data[0] = 7;
  observe(x, y, [&] { launch_policies(x.data, y.data); });
  CHECK(y.data[0] == 7 + 32 + 64);
  if (!rmsnorm::can_observe()) SKIP_TEST("loads and stores are not observed in this build");
  rmsnorm::take_hazards();
  rmsnorm::start_observing({{"x", x.data, 4, 4}, {"y", y.data, 4, 4}});
  launch_past_the_end(x.data, y.data);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  rmsnorm::stop_observing();
  const std::vector<std::string> found = rmsnorm::take_hazards();
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], contains("1 element past the end of x (1 element)"));
}

TEST_CASE("16-bit values are requests of their own size and convert by rounding") {
  const Floats x;
  const Floats y;
  for (const int width : {1, 2}) {
    auto* from = reinterpret_cast<__nv_bfloat16*>(x.data);
    for (int i = 0; i < 64; ++i) from[i] = __float2bfloat16(static_cast<float>(i) / 8);
    const auto seen = observe(x, y, [&] { launch_halves(x.data, y.data, width); });
    const auto* to = reinterpret_cast<const __half*>(y.data);
    CHECK(__half2float(to[32 * width - 1]) == static_cast<float>(32 * width - 1) / 8);
    if (!rmsnorm::can_observe()) continue;
    const rmsnorm::LineCount load = only(seen, "global load", "x");
    CHECK(load.bytes == 2 * width);
    CHECK(load.requests == 1);
    CHECK(load.lanes == 32);
    CHECK(load.sectors == 2 * width);
    CHECK(only(seen, "global store", "y").bytes == 2 * width);
  }
}

TEST_CASE("barriers count for each block and shuffles for each warp") {
  if (!rmsnorm::can_observe()) SKIP_TEST("nothing is counted in this build");
  const Floats x;
  const Floats y;
  const auto seen = observe(x, y, [&] { launch_barriers(y.data, 96); });
  CHECK(seen.blocks == 2);
  const rmsnorm::LineCount barrier = only(seen, "barrier", "");
  CHECK(barrier.requests == 2 * 3);
  CHECK(barrier.lanes == 2 * 3 * 96);
  const rmsnorm::LineCount shuffle = only(seen, "shuffle", "");
  CHECK(shuffle.requests == 2 * 3 * 5);
  CHECK(shuffle.lanes == 2 * 96 * 5);
}

TEST_CASE("a trigger counts for each block, and is late behind a store of any thread without it") {
  if (!rmsnorm::can_observe()) SKIP_TEST("nothing is counted in this build");
  struct Row {
    int early, late;
    const char* kind;
    int lanes;
  };
  const Floats x;
  const Floats y;
  for (const Row& row :
       {Row{96, 0, "trigger", 96},
        {96, 96, "trigger", 96},
        {95, 0, "late trigger", 95},
        {95, 1, "late trigger", 96},
        {0, 96, "late trigger", 96}}) {
    CAPTURE(row.early, row.late);
    const auto seen = observe(x, y, [&] { launch_triggers(y.data, row.early, row.late); });
    const rmsnorm::LineCount trigger = only(seen, row.kind, "");
    CHECK(trigger.requests == 2);
    CHECK(trigger.lanes == 2 * row.lanes);
    CHECK(seen.lines.size() == 2);  // and the store
  }
  const auto without = observe(x, y, [&] { launch_triggers(y.data, 0, 0); });
  CHECK(without.lines.size() == 1);
}

// Two halves of a warp, or two quarters, go together where neighbours want the same: as ncu counted
// on an H200.
TEST_CASE("lanes that want the same vector share a wavefront") {
  if (!rmsnorm::can_observe()) SKIP_TEST("loads and stores are not observed in this build");
  struct Pattern {
    int bytes, sharing, wavefronts;
  };
  const Floats x;
  const Floats y;
  for (const Pattern& p : std::vector<Pattern>{
           {8, 1, 2}, {8, 2, 1}, {8, 32, 1}, {16, 1, 4}, {16, 2, 2}, {16, 32, 2}}) {
    CAPTURE(p.bytes, p.sharing);
    const auto seen = observe(x, y, [&] { launch_shared_vectors(y.data, p.bytes, p.sharing); });
    CHECK(only(seen, "shared load", "row").wavefronts == p.wavefronts);
  }
}

TEST_CASE("a long loop is counted as a short one is") {
  if (!rmsnorm::can_observe()) SKIP_TEST("loads and stores are not observed in this build");
  const Floats x;
  const Floats y;
  const auto seen = observe(x, y, [&] { launch_long_loop(x.data, y.data); });
  std::int64_t requests = 0;
  std::int64_t sectors = 0;
  for (const rmsnorm::LineCount& line : seen.lines) {
    if (line.kind != "global load") continue;
    requests += line.requests;
    sectors += line.sectors;
  }
  CHECK(requests == 2 * 6000 + 1);
  CHECK(sectors == 2 * 6000 * 4 + 1);
}

TEST_CASE("dynamic shared memory may be declared outside of all functions") {
  const Floats x;
  const Floats y;
  observe(x, y, [&] { launch_file_scope(y.data, 100); });
  CHECK(y.data[99] == 99);
}

TEST_CASE("a kernel may use memory that is none of the tensors") {
  const Floats x;
  const Floats y;
  const Floats workspace;
  observe(x, y, [&] { launch_with_workspace(x.data + 5, workspace.data, y.data); });
  CHECK(y.data[0] == 6);
}

TEST_CASE("the default stream and a blocking one keep the order of their work") {
  const Floats y;
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  launch_set(y.data, 5, stream);
  launch_increment(y.data, nullptr);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(y.data[0] == 6);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("copies and fills stay within their allocation") {
  const Floats y;
  const Floats z;
  const std::size_t bytes = Floats::kSize * sizeof(float);
  CHECK(cudaMemset(y.data, 0, bytes) == cudaSuccess);
  CHECK(cudaMemset(y.data + 1, 0, bytes) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(y.data, z.data + 1, bytes, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(y.data + 1, z.data, bytes, cudaMemcpyDefault) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("the distance of a shuffle counts by its last five bits") {
  const Floats y;
  for (const int distance : {-1, 31, 63}) {
    launch_shuffle_xor(y.data, distance);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(y.data[0] == 31);
    CHECK(rmsnorm::take_hazards().empty() == (distance == 31));  // the others leave the warp
  }
}

TEST_CASE("half a warp can reduce alone with cub") {
  const Floats x;
  const Floats y;
  launch_half_warp_reduce(x.data, y.data);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(y.data[0] == 15 * 16 / 2);
  CHECK(rmsnorm::take_hazards() == std::vector<std::string>());
}
