/// \file
/// Temporary storage of CUB that is a thread's own, or that two warps use at once.

#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

using WarpReduce = cub::WarpReduce<float>;
using BlockReduce = cub::BlockReduce<float, 64>;

__device__ float warp_sum(WarpReduce::TempStorage& storage, float value) {
  return WarpReduce(storage).Sum(value);  // <-- own
}

__global__ void forgotten_for_warp(const float* x, float* y, bool correct) {
  __shared__ WarpReduce::TempStorage scratch;
  WarpReduce::TempStorage own;
  y[threadIdx.x] = warp_sum(correct ? scratch : own, x[threadIdx.x]);
}

__global__ void forgotten_for_block(const float* x, float* y, bool correct) {
  __shared__ BlockReduce::TempStorage scratch;
  BlockReduce::TempStorage own;
  const float sum = BlockReduce(correct ? scratch : own).Sum(x[threadIdx.x]);  // <-- block
  y[threadIdx.x] = threadIdx.x == 0 ? sum : 0;
}

/// One for all warps; the right one has one for each.
__global__ void one_for_all(const float* x, float* y, bool correct) {
  __shared__ WarpReduce::TempStorage scratch[2];
  const int warp = static_cast<int>(threadIdx.x / 32);
  y[threadIdx.x] = WarpReduce(scratch[correct ? warp : 1]).Sum(x[threadIdx.x]);  // <-- all
}

/// As many as there are warps, counted from 1.
__global__ void beyond_the_last(const float* x, float* y, bool correct) {
  __shared__ WarpReduce::TempStorage scratch[2];
  const int warp = static_cast<int>(threadIdx.x / 32);
  y[threadIdx.x] = WarpReduce(scratch[warp + (correct ? 0 : 1)]).Sum(x[threadIdx.x]);  // <-- beyond
}

/// Warp 2 takes the storage of warp 1, and then the same again after a __syncwarp().
__global__ void anothers(const float* x, float* y, bool correct) {
  __shared__ WarpReduce::TempStorage scratch[2];
  const int warp = static_cast<int>(threadIdx.x / 32);
  float sum = 0;
  if (warp == 1) sum = WarpReduce(scratch[1]).Sum(x[threadIdx.x]);  // <-- first use
  if (correct) __syncthreads();
  if (warp == 2) sum = WarpReduce(scratch[1]).Sum(x[threadIdx.x]);  // <-- second use
  __syncwarp();
  if (warp == 2) sum = WarpReduce(scratch[1]).Reduce(sum, [](float a, float b) { return a + b; });
  y[threadIdx.x] = sum;
}

/// The warps take turns, with a barrier between two of them. In dynamic memory, and twice.
__global__ void in_turns(const float* x, float* y, bool correct) {
  extern __shared__ float memory[];
  auto& storage = *reinterpret_cast<WarpReduce::TempStorage*>(memory);
  for (unsigned turn = 0; turn < 6; ++turn) {
    if (threadIdx.x / 32 == turn % 3) {
      y[threadIdx.x] = WarpReduce(storage).Sum(x[threadIdx.x]);  // <-- turn
    }
    if (correct || turn < 2) __syncthreads();
  }
}

}  // namespace

std::vector<Case> temp_storage_cases() {
  return {
      {"__shared__ is forgotten for a warp", on(forgotten_for_warp, {2, 32})},
      {"__shared__ is forgotten for a block", on(forgotten_for_block, {2, 64})},
      {"two warps share one", on(one_for_all, {2, 64})},
      {"one beyond the last of an array", on(beyond_the_last, {2, 64})},
      {"a warp takes another one's", on(anothers, {2, 96})},
      {"warps take turns without a barrier", on(in_turns, {2, 96, 128})},
  };
}

}  // namespace tests
