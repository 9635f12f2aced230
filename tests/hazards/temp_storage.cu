/// \file
/// Temporary storage of CUB that is a thread's own, or that two warps use at once.

#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>

#include "tests/hazards/cases.hpp"

namespace tests {
namespace {

using WarpReduce = cub::WarpReduce<float>;
using BlockReduce = cub::BlockReduce<float, 64>;

__device__ float warp_sum(WarpReduce::TempStorage& storage, float value) {
  return WarpReduce(storage).Sum(value);  // <-- own
}

template <bool kCorrect>
__global__ void forgotten_for_warp(const float* x, float* y) {
  __shared__ WarpReduce::TempStorage scratch;
  WarpReduce::TempStorage own;
  y[threadIdx.x] = warp_sum(kCorrect ? scratch : own, x[threadIdx.x]);
}

template <bool kCorrect>
__global__ void forgotten_for_block(const float* x, float* y) {
  __shared__ BlockReduce::TempStorage scratch;
  BlockReduce::TempStorage own;
  const float sum = BlockReduce(kCorrect ? scratch : own).Sum(x[threadIdx.x]);  // <-- block
  y[threadIdx.x] = threadIdx.x == 0 ? sum : 0;
}

/// One for all warps; the right one has one for each.
template <bool kCorrect>
__global__ void one_for_all(const float* x, float* y) {
  __shared__ WarpReduce::TempStorage scratch[2];
  const int warp = static_cast<int>(threadIdx.x / 32);
  y[threadIdx.x] = WarpReduce(scratch[kCorrect ? warp : 1]).Sum(x[threadIdx.x]);  // <-- all
}

/// Warp 2 takes the storage of warp 1, and then the same again after a __syncwarp().
template <bool kCorrect>
__global__ void anothers(const float* x, float* y) {
  __shared__ WarpReduce::TempStorage scratch[2];
  const int warp = static_cast<int>(threadIdx.x / 32);
  float sum = 0;
  if (warp == 1) sum = WarpReduce(scratch[1]).Sum(x[threadIdx.x]);  // <-- first use
  if (kCorrect) __syncthreads();
  if (warp == 2) sum = WarpReduce(scratch[1]).Sum(x[threadIdx.x]);  // <-- second use
  __syncwarp();
  if (warp == 2) sum = WarpReduce(scratch[1]).Reduce(sum, [](float a, float b) { return a + b; });
  y[threadIdx.x] = sum;
}

/// The warps take turns, with a barrier between two of them. In dynamic memory, and twice.
template <bool kCorrect>
__global__ void in_turns(const float* x, float* y) {
  extern __shared__ float memory[];
  auto& storage = *reinterpret_cast<WarpReduce::TempStorage*>(memory);
  for (unsigned turn = 0; turn < 6; ++turn) {
    if (threadIdx.x / 32 == turn % 3) {
      y[threadIdx.x] = WarpReduce(storage).Sum(x[threadIdx.x]);  // <-- turn
    }
    if (kCorrect || turn < 2) __syncthreads();
  }
}

}  // namespace

std::vector<Case> temp_storage_cases() {
  const std::string declare = "Declare it __shared__: the threads exchange their values through it";
  const std::string separate =
      "Give each warp a TempStorage of its own, or put __syncthreads() between the two";
  return {
      {.name = "__shared__ is forgotten for a warp",
       .wrong = [](Memory m) { forgotten_for_warp<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { forgotten_for_warp<true><<<2, 32>>>(m.x, m.y); },
       .kernel = "forgotten_for_warp<false>",
       .at = "own",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 reduces with a TempStorage that is not in shared memory", declare}},
      {.name = "__shared__ is forgotten for a block",
       .wrong = [](Memory m) { forgotten_for_block<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { forgotten_for_block<true><<<2, 64>>>(m.x, m.y); },
       .kernel = "forgotten_for_block<false>",
       .at = "block",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 reduces with a TempStorage that is not in shared memory", declare}},
      {.name = "two warps share one",
       .wrong = [](Memory m) { one_for_all<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { one_for_all<true><<<2, 64>>>(m.x, m.y); },
       .kernel = "one_for_all<false>",
       .at = "all",
       .other = "all",
       .block = "0",
       .thread = "32",
       .says = {"warp 1 uses the TempStorage scratch[1] here, warp 0 uses it at", separate}},
      {.name = "a warp takes another one's",
       .wrong = [](Memory m) { anothers<false><<<1, 96>>>(m.x, m.y); },
       .right = [](Memory m) { anothers<true><<<2, 96>>>(m.x, m.y); },
       .kernel = "anothers<false>",
       .at = "second use",
       .other = "first use",
       .block = "0",
       .thread = "64",
       .says = {"warp 2 uses the TempStorage scratch[1] here, warp 1 uses it at", separate}},
      {.name = "warps take turns without a barrier",
       .wrong = [](Memory m) { in_turns<false><<<1, 96, 128>>>(m.x, m.y); },
       .right = [](Memory m) { in_turns<true><<<2, 96, 128>>>(m.x, m.y); },
       .kernel = "in_turns<false>",
       .at = "turn",
       .other = "turn",
       .block = "0",
       .thread = "64",
       .says = {"warp 2 uses the TempStorage memory[0] here, warp 1 uses it at", separate}},
  };
}

}  // namespace tests
