#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <random>
#include <string>

#include "common/base/cuda_check.hpp"
#include "common/base/terminal.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/machine.hpp"
#include "common/measure/roofline.hpp"
#include "common/tensors/buffer.hpp"

namespace rmsnorm {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kGiB = kKiB * kKiB * kKiB;

// ------------------------------------------------------------------------------------- latency

constexpr int kLanes = 32;
constexpr int kLine = 128;              // bytes between two elements of a ring in global memory
constexpr int kSteps = (1 << 16) + 16;  // of a chase: no whole rounds, which end where they begin
constexpr int kMostWarmUp = 1 << 20;    // steps, less than a second
constexpr int kSamples = 11;

/// Where a chase ended, and how long it took.
struct Chase {
  unsigned long long place;  // element of the ring
  long long cycles;          // of the SM's clock
  long long ns;              // of the GPU's clock of real time, which may tick once a microsecond
};

__device__ long long nanoseconds() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

/// Element order[k] of the ring points to order[k + 1], and the last to the first.
__global__ void tie(std::byte* ring, const std::uint32_t* order, std::uint32_t count) {
  const std::uint32_t k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= count) return;
  const std::uint32_t next = order[k + 1 < count ? k + 1 : 0];
  std::byte* const place = ring + std::uint64_t{order[k]} * kLine;
  *reinterpret_cast<std::byte**>(place) = ring + std::uint64_t{next} * kLine;
}

/// The address is what was loaded: nothing is computed between two loads.
__device__ unsigned long long follow(unsigned long long address) {
  return __ldca(reinterpret_cast<const unsigned long long*>(address));
}

__global__ void chase_global(const std::byte* ring, std::uint32_t from, int warm_up, Chase* end) {
  const auto begin = reinterpret_cast<unsigned long long>(ring);
  unsigned long long at = begin + std::uint64_t{from} * kLine;
  for (int i = 0; i < warm_up; ++i) at = follow(at);
  const long long cycles = clock64();
  const long long ns = nanoseconds();
#pragma unroll 16
  for (int i = 0; i < kSteps; ++i) at = follow(at);
  // An SM looks at its clock without waiting for a load, unless a branch needs what was loaded.
  if (at == 0) return;
  *end = {(at - begin) / kLine, clock64() - cycles, nanoseconds() - ns};
}

/// The lanes of a warp follow a ring of 32 words, one behind the other: they load all of it in each
/// step. With a stride of 0, all of them load the same word.
__global__ void chase_shared(int stride, Chase* ends) {
  __shared__ unsigned ring[kLanes * 33];
  const auto begin = static_cast<unsigned>(__cvta_generic_to_shared(ring));
  const int lane = threadIdx.x;
  ring[lane * stride] = begin + 4 * ((lane + 1) % kLanes * stride);
  __syncwarp();  // the ring is whole
  unsigned at = begin + 4 * lane * stride;
  const long long cycles = clock64();
  const long long ns = nanoseconds();
#pragma unroll 16
  for (int i = 0; i < kSteps; ++i) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at)::"memory");
  if (at == ~0u) return;  // as above
  ends[lane] = {(at - begin) / 4, clock64() - cycles, nanoseconds() - ns};
}

/// L1 and shared memory are one memory. Of it, L1 gets what a kernel does not need as shared.
void prefer_l1(const void* kernel) {
  cuda_check(
      cudaFuncSetAttribute(
          kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxL1),
      "asking for a large L1");
}

/// Fills in a row's times. launch(ends) starts a chase by so many lanes, the next sample, and
/// place(lane) says where it has to end.
template <class Launch, class Place>
MachineRow timed(MachineRow row, int lanes, const Launch& launch, const Place& place) {
  std::vector<Chase> ends(lanes);
  const Buffer on_device(Memory::device, ends.size() * sizeof ends[0]);
  std::vector<double> cycles;
  std::vector<double> ns;
  for (int sample = 0; sample <= kSamples; ++sample) {
    cuda_check(cudaMemset(on_device.data(), 0xff, on_device.bytes()), "clearing an end");
    launch(reinterpret_cast<Chase*>(on_device.data()));
    cuda_check(cudaGetLastError(), "starting a chase");
    cuda_check(cudaDeviceSynchronize(), "measuring the time of a step");
    copy_bytes(ends.data(), on_device.data(), on_device.bytes());
    for (int lane = 0; lane < lanes; ++lane) {
      if (ends[lane].place == place(lane)) continue;
      throw WrongProbe("the " + row.probe + " of " + row.memory + " did not end where it has to");
    }
    if (sample == 0) continue;  // the clock had to rise, and the caches to fill
    cycles.push_back(static_cast<double>(ends[0].cycles) / kSteps);
    ns.push_back(static_cast<double>(ends[0].ns) / kSteps);
  }
  std::sort(cycles.begin(), cycles.end());
  std::sort(ns.begin(), ns.end());
  row.cycles = cycles[kSamples / 2];
  row.ns = ns[kSamples / 2];
  row.spread_pct = 100 * (ns[kSamples - 2] - ns[1]) / 2 / *row.ns;
  row.samples = kSamples;
  return row;
}

MachineRow latency_of_shared(int stride) {
  return timed(
      {.probe = "latency", .memory = "shared", .stride_words = stride}, kLanes,
      [&](Chase* ends) { chase_shared<<<1, kLanes>>>(stride, ends); },
      [&](int lane) { return static_cast<unsigned>((lane + kSteps) % kLanes * stride); });
}

/// Of a set whose lines are read in a random order, the same each time.
MachineRow latency_of_global(std::int64_t set, std::byte* ring) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(set / kLine));
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  const auto count = static_cast<std::uint32_t>(order.size());
  const Buffer on_device(Memory::device, order.size() * sizeof order[0]);
  copy_bytes(on_device.data(), order.data(), on_device.bytes());
  tie<<<(count + 255) / 256, 256>>>(
      ring, reinterpret_cast<const std::uint32_t*>(on_device.data()), count);
  cuda_check(cudaGetLastError(), "tying a ring");

  // Each chase goes on where the last one ended. L1 is empty then; L2 keeps its lines.
  std::uint64_t steps = 0;
  const auto launch = [&](Chase* end) {
    const bool warms_up = steps == 0 || set <= kKiB * kKiB;
    const int warm_up = warms_up ? static_cast<int>(std::min<std::int64_t>(count, kMostWarmUp)) : 0;
    chase_global<<<1, 1>>>(ring, order[steps % count], warm_up, end);
    steps += warm_up + kSteps;
  };
  return timed({.probe = "latency", .memory = "global", .set_bytes = set}, 1, launch, [&](int) {
    return order[steps % count];
  });
}

void measure_latencies(const Gpu& gpu, std::vector<MachineRow>& rows) {
  for (const int stride : {0, 1, 2, 4, 8, 16, 32, 33}) rows.push_back(latency_of_shared(stride));
  const auto most = static_cast<std::int64_t>(std::min<std::size_t>(kGiB, gpu.free_bytes / 4));
  const Buffer ring(Memory::device, static_cast<std::size_t>(most));
  prefer_l1(reinterpret_cast<const void*>(chase_global));
  for (std::int64_t octave = 4 * kKiB; octave <= most; octave *= 2) {
    for (const std::int64_t set : {octave, octave / 2 * 3}) {
      if (set > most) continue;
      progress("latency of " + std::to_string(set / kKiB) + " KiB");
      rows.push_back(latency_of_global(set, ring.data()));
    }
  }
}

// ----------------------------------------------------------------------------------- bandwidth

constexpr int kBlock = 1024;               // threads of a block, of which some read
constexpr int kSmallSet = 16384;           // bytes: fits into L1 and shared memory
constexpr std::int64_t kOfSm = 128 << 20;  // bytes that each SM reads: takes long against a launch
constexpr unsigned kFactor = 0x9e3779b9;   // word i of a set is i times this, modulo 2^32

/// What the words of the first vectors of a set add up to, modulo 2^32.
unsigned sum_of(std::uint64_t vectors) {
  return kFactor * static_cast<unsigned>(2 * vectors * (4 * vectors - 1));
}

__global__ void fill(unsigned* words, std::int64_t count) {
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < count; i += gridDim.x * blockDim.x) words[i] = kFactor * static_cast<unsigned>(i);
}

/// Where loads go to.
enum class From {
  shared,  // shared memory, to which each block copies the set first
  l1,      // global memory; each block reads the same set
  l2       // global memory, past L1; all blocks together read a set, which fits into L2 or does not
};

template <From from>
__device__ uint4 load(const uint4* vector) {
  if constexpr (from == From::shared) return *vector;
  if constexpr (from == From::l1) return __ldca(vector);
  return __ldcg(vector);
}

__device__ void add(const uint4& value, uint4& sum) {
  sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
}

/// The first `readers` threads of a block read vector after vector of the set, from its begin again
/// at its end: so many batches of `loads` vectors a thread. Each adds up the words that it read.
/// \param vectors of the set, a power of two
template <From from, int loads>
__global__ __launch_bounds__(kBlock) void read(
    const uint4* set, unsigned vectors, unsigned readers, int batches, unsigned* sums) {
  __shared__ uint4 copy[from == From::shared ? kSmallSet / 16 : 1];
  if constexpr (from == From::shared) {
    for (unsigned i = threadIdx.x; i < vectors; i += blockDim.x) copy[i] = set[i];
    __syncthreads();  // the copy is whole
    set = copy;
  }
  if (threadIdx.x >= readers) return;
  const unsigned reader = blockIdx.x * readers + threadIdx.x;
  const unsigned step = from == From::l2 ? gridDim.x * readers : readers;
  unsigned at = from == From::l2 ? reader : threadIdx.x;
  // What was loaded is added up in the next batch. In the same one, the compiler would add sooner,
  // to save registers, and fewer loads would be in flight.
  uint4 values[loads];
#pragma unroll
  for (int i = 0; i < loads; ++i) values[i] = load<from>(&set[(at + i * step) & (vectors - 1)]);
  uint4 sum = {};
#pragma unroll 1
  for (int batch = 1; batch < batches; ++batch) {
    at += loads * step;
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      add(values[i], sum);
      values[i] = load<from>(&set[(at + i * step) & (vectors - 1)]);
    }
  }
#pragma unroll
  for (int i = 0; i < loads; ++i) add(values[i], sum);
  sums[reader] = sum.x + sum.y + sum.z + sum.w;
}

/// Adds rows of one number of loads and more and more threads. As many blocks are launched as all
/// SMs can hold: so each SM has its share, also where few threads of a block read.
template <From from, int loads>
void measure_loads(MachineRow row, int sms, const Buffer& set, std::vector<MachineRow>& rows) {
  const auto kernel = read<from, loads>;
  if (from != From::shared) prefer_l1(reinterpret_cast<const void*>(kernel));
  int of_sm = 0;
  cuda_check(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_sm, kernel, kBlock, 0),
      "asking how many blocks fit");
  const int blocks = of_sm * sms;
  const auto vectors = static_cast<unsigned>(*row.set_bytes / 16);
  std::vector<unsigned> found(static_cast<std::size_t>(blocks) * kBlock);
  const Buffer sums(Memory::device, found.size() * sizeof found[0]);
  for (int readers = 32; readers <= kBlock; readers *= 2) {
    row.threads = readers * of_sm;
    row.loads = loads;
    progress("bandwidth of " + row.memory + " with " + std::to_string(*row.threads) + " threads");
    const int batches = static_cast<int>(kOfSm / 16 / *row.threads / loads);
    cuda_check(cudaMemset(sums.data(), 0, sums.bytes()), "clearing sums");
    const auto launch = [&](int, cudaStream_t stream) {
      kernel<<<blocks, kBlock, 0, stream>>>(
          reinterpret_cast<const uint4*>(set.data()), vectors, readers, batches,
          reinterpret_cast<unsigned*>(sums.data()));
      return cudaGetLastError();
    };
    const Timing timing = time_launch(launch, Cache::warm, 1, 0.02);

    // Each block has read so many vectors from the set's begin on, or all together have.
    const std::uint64_t all = std::uint64_t{kOfSm} / 16 * sms;
    const unsigned readings = from == From::l2 ? 1 : blocks;
    const std::uint64_t each = all / readings;
    const unsigned wanted =
        static_cast<unsigned>(each / vectors) * sum_of(vectors) + sum_of(each % vectors);
    copy_bytes(found.data(), sums.data(), sums.bytes());
    if (std::accumulate(found.begin(), found.end(), 0u) != readings * wanted) {
      throw WrongProbe("the bandwidth of " + row.memory + " is that of other words");
    }
    row.gbps = gbps(16.0 * static_cast<double>(all), timing.median_us);
    row.spread_pct = timing.spread_pct;
    row.samples = timing.samples;
    rows.push_back(row);
  }
}

template <From from>
void measure_bandwidth(
    const char* memory, std::size_t bytes, int sms, const Buffer& set,
    std::vector<MachineRow>& rows) {
  MachineRow row{.probe = "bandwidth", .memory = memory};
  row.set_bytes = static_cast<std::int64_t>(bytes);
  measure_loads<from, 1>(row, sms, set, rows);
  measure_loads<from, 2>(row, sms, set, rows);
  measure_loads<from, 4>(row, sms, set, rows);
  measure_loads<from, 8>(row, sms, set, rows);
}

void measure_bandwidths(const Gpu& gpu, std::vector<MachineRow>& rows) {
  const std::size_t most = std::bit_floor(std::min<std::size_t>(4 * kGiB, gpu.free_bytes / 4));
  // Half of an L2 may hold a second copy of what the other half has.
  const std::size_t in_l2 = std::bit_floor(std::clamp<std::size_t>(gpu.l2_bytes / 3, 16, most));
  const int sms = gpu.multiprocessors;
  const Buffer set(Memory::device, most);
  fill<<<4096, 256>>>(reinterpret_cast<unsigned*>(set.data()), static_cast<std::int64_t>(most / 4));
  cuda_check(cudaGetLastError(), "filling memory");
  measure_bandwidth<From::shared>("shared", kSmallSet, sms, set, rows);
  measure_bandwidth<From::l1>("l1", kSmallSet, sms, set, rows);
  measure_bandwidth<From::l2>("l2", in_l2, sms, set, rows);
  measure_bandwidth<From::l2>("dram", most, sms, set, rows);
}

// --------------------------------------------------------------------------------- instructions

constexpr int kWarps = 32;     // of a block, and of its SM
constexpr int kChains = 4;     // of a thread: results that do not need each other
constexpr int kScale = 10000;  // a chase's end is a number: it is compared in so many parts of 1

/// Each with what it makes of a number again and again: a chain ends at the equation's solution.
enum class Instruction {
  fma,   // x = 1 - x / 2
  ex2,   // x = 2^-x
  rsqrt  // x = 1 / sqrt(x)
};

template <Instruction instruction>
__device__ float next(float x) {
  float y = fmaf(x, -0.5f, 1.0f);
  if (instruction == Instruction::ex2) asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(-x));
  if (instruction == Instruction::rsqrt) asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <Instruction instruction>
__global__ __launch_bounds__(kWarps* kLanes) void compute(float from, Chase* end) {
  float x[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) x[i] = from + static_cast<float>(i);
  __syncthreads();  // all warps begin together
  const long long cycles = clock64();
  const long long ns = nanoseconds();
#pragma unroll 16
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (float& value : x) value = next<instruction>(value);
  }
  float sum = 0;
#pragma unroll
  for (const float value : x) sum += value;
  if (__syncthreads_or(sum == 0)) return;  // all warps have their results
  const auto place = static_cast<unsigned long long>(rintf(sum / kChains * kScale));
  if (threadIdx.x == 0) *end = {place, clock64() - cycles, nanoseconds() - ns};
}

/// Of one SM, all of whose schedulers have warps enough. The times are those from one instruction
/// of a warp to the next.
/// \param solution  in parts of 1 / kScale
template <Instruction instruction>
MachineRow time_of(const char* name, unsigned long long solution) {
  progress("time of " + std::string(name));
  const auto launch = [](Chase* end) { compute<instruction><<<1, kWarps * kLanes>>>(0.5f, end); };
  MachineRow row{.probe = "instruction", .memory = name, .threads = kWarps * kLanes};
  row = timed(row, 1, launch, [&](int) { return solution; });
  *row.cycles /= kWarps * kChains;
  *row.ns /= kWarps * kChains;
  return row;
}

void measure_instructions(std::vector<MachineRow>& rows) {
  rows.push_back(time_of<Instruction::fma>("fma", 6667));
  rows.push_back(time_of<Instruction::ex2>("ex2", 6412));
  rows.push_back(time_of<Instruction::rsqrt>("rsqrt", 10000));
}

// ------------------------------------------------------------------------------------- clusters

__global__ void fill_multiprocessor() {}  // with its shared memory: all that a block can have

}  // namespace

std::vector<MachineRow> measure_machine(const Gpu& gpu) {
  std::vector<MachineRow> rows;
  measure_latencies(gpu, rows);
  measure_bandwidths(gpu, rows);
  measure_instructions(rows);
  end_progress();
  return rows;
}

int clusters_at_a_time(int blocks) {
  const auto kernel = fill_multiprocessor;
  cudaDeviceProp device{};
  cuda_check(cudaGetDeviceProperties(&device, 0), "asking what the GPU has");
  if (device.major < 9) return 0;
  const auto bytes = static_cast<int>(device.sharedMemPerBlockOptin);
  cuda_check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
      "asking for all shared memory");
  cuda_check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
      "asking for large clusters");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = 512;
  config.dynamicSmemBytes = bytes;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = 0;
  const cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
  for (const cudaError_t refusal :
       {cudaErrorInvalidClusterSize, cudaErrorInvalidConfiguration, cudaErrorLaunchOutOfResources,
        cudaErrorNotSupported}) {
    if (error != refusal) continue;
    cudaGetLastError();
    return 0;
  }
  cuda_check(error, "asking how many clusters fit");
  return clusters;
}

}  // namespace rmsnorm
