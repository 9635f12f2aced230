/// \file
/// Shuffles, votes and __syncwarp() whose masks are not true, and shuffles out of the warp.

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

constexpr unsigned kAll = 0xffffffff;

template <class Scalar>
__device__ Scalar warp_sum(Scalar value, unsigned mask) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(mask, value, offset);  // <-- sum
  }
  return value;
}

/// The row ends in the middle of the second warp of a 2-D block.
template <class Scalar, int kColumns>
__global__ void row_ends(const float* x, float* y, bool correct) {
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  if (!correct && t >= kColumns) return;
  const Scalar sum = warp_sum<Scalar>(t < kColumns ? x[t] : 0, kAll);
  if (t < kColumns) y[t] = static_cast<float>(sum);
}

/// In the last round, not all lanes have an element.
__global__ void last_round(const float* x, float* y, bool correct) {
  const int columns = 40;
  const int end = correct ? (columns + 31) / 32 * 32 : columns;
  for (int i = static_cast<int>(threadIdx.x); i < end; i += 32) {
    const float next = __shfl_xor_sync(kAll, i < columns ? x[i] : 0, 1);  // <-- round
    if (i < columns) y[i] = next;
  }
}

/// One of the collectives.
__device__ float call(int kind, unsigned mask, float value) {
  if (kind == 0) return __shfl_xor_sync(mask, value, 8);                     // <-- shuffle
  if (kind == 1) return static_cast<float>(__ballot_sync(mask, value > 4));  // <-- ballot
  __syncwarp(mask);                                                          // <-- sync
  return value;
}

/// Upper lanes of each warp are at a barrier.
template <int kKind, unsigned kLanes>
__global__ void others_at_barrier(const float* x, float* y, bool correct) {
  const unsigned t = threadIdx.y * blockDim.x + threadIdx.x;
  float value = x[t];
  if (kLanes >> t % 32 & 1) value = call(kKind, correct ? kLanes : kAll, value);
  __syncthreads();  // <-- barrier
  y[t] = value;
}

template <int kKind>
__global__ void without_oneself(const float* x, float* y, bool correct) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned half = (lane < 16) == correct ? 0xffffu : 0xffff0000u;
  y[threadIdx.x] = call(kKind, half, x[threadIdx.x]);
}

/// Lanes may meet in two calls, but only of the same function.
__global__ void two_calls(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if (t < 16) {
    y[t] = __shfl_xor_sync(kAll, x[t], 1);  // <-- call first
  } else if (correct) {
    y[t] = __shfl_xor_sync(kAll, x[t], 2);
  } else {
    y[t] = __shfl_down_sync(kAll, x[t], 2);  // <-- call second
  }
}

__global__ void two_votes(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  const bool is_large = x[t] > 3;
  if (t % 2 == 0) {
    y[t] = static_cast<float>(__any_sync(kAll, is_large));  // <-- vote
  } else if (correct) {
    y[t] = static_cast<float>(-__any_sync(kAll, is_large));
  } else {
    y[t] = static_cast<float>(__all_sync(kAll, is_large));  // <-- other vote
  }
}

/// On one line.
__global__ void two_reductions(const float*, float* y, bool correct) {
  const unsigned t = threadIdx.x;
  const bool adds = t != 9 || correct;
  y[t] = static_cast<float>(
      adds ? __reduce_add_sync(kAll, t) : __reduce_max_sync(kAll, t));  // <-- both
}

__global__ void shuffle_meets_sync(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  float value = x[t];
  if (correct || t % 2 == 0) value = __shfl_xor_sync(kAll, value, 2);  // <-- kind first
  if (correct || t % 2 == 1) __syncwarp();                             // <-- kind second
  y[t] = value;
}

/// Lanes 0 and 1 name all, the others do not name these two.
__global__ void two_masks(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  const unsigned mask = t < 2 && !correct ? 0xfu : 0x3u << (t / 2 * 2);
  if (t < 4) {
    y[t] = __shfl_xor_sync(mask, x[t], 1);  // <-- masks first
    __syncwarp(0xf);                        // <-- masks second
  }
}

__global__ void source_outside(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if (t < 16) y[t] = __shfl_down_sync(0xffff, x[t], 8, correct ? 16 : 32);  // <-- outside
}

__global__ void source_by_index(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if (t % 32 >= 4) return;
  y[t] = __shfl_sync(0xf, x[t], correct ? (t + 1) % 4 : t + 1);  // <-- index
}

/// The last warp of a block of 40 has 8 lanes.
__global__ void source_is_no_thread(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  double value = x[t];
  const int first = correct && t >= 32 ? 4 : 16;
  for (int offset = first; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAll, value, offset);  // <-- no thread
  }
  y[t] = static_cast<float>(value);
}

/// The tree of a whole block, by shuffles alone.
__global__ void tree_of_block(const float* x, float* y, bool correct) {
  float value = x[threadIdx.x];
  for (int offset = correct ? 16 : 32; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAll, value, offset);  // <-- tree
  }
  y[threadIdx.x] = value;
}

/// In double, and only lane 3 of the second warp goes too far.
__global__ void far_down(const float* x, float* y, bool correct) {
  const unsigned t = threadIdx.x;
  const unsigned distance = t == 35 && !correct ? 32 : 31;
  const double other = __shfl_down_sync(kAll, static_cast<double>(x[t]), distance);  // <-- down
  y[t] = static_cast<float>(other);
}

/// 16 lanes to the left of lane 17, and not the other way round.
__global__ void negative_up(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  const int distance = correct ? 16 : t - 17;
  y[t] = __shfl_up_sync(kAll, x[t], static_cast<unsigned>(distance));  // <-- up
}

}  // namespace

std::vector<Case> shuffle_cases() {
  return {
      {"lanes beyond the row have returned", on(row_ends<float, 63>, {1, dim3(16, 4)})},
      {"not all lanes have a last round", on(last_round, {1, 32})},
      {"a shuffle waits for lanes at a barrier", on(others_at_barrier<0, 0xffff>, {1, 64}),
       cudaErrorLaunchFailure},
      {"a vote waits for a lane at a barrier", on(others_at_barrier<1, ~8u>, {1, 50}),
       cudaErrorLaunchFailure},
      {"a __syncwarp waits for a lane at a barrier",
       on(others_at_barrier<2, ~(1u << 7)>, {2, dim3(8, 4)}), cudaErrorLaunchFailure},
      {"a shuffle leaves its own lane out", on(without_oneself<0>, {1, 32}),
       cudaErrorLaunchFailure},
      {"a vote leaves its own lane out", on(without_oneself<1>, {1, 32}), cudaErrorLaunchFailure},
      {"a __syncwarp leaves its own lane out", on(without_oneself<2>, {1, 96}),
       cudaErrorLaunchFailure},
      {"lanes meet in two shuffles", on(two_calls, {1, 32}), cudaErrorLaunchFailure},
      {"lanes meet in two votes", on(two_votes, {1, 32}), cudaErrorLaunchFailure},
      {"lanes meet in two reductions", on(two_reductions, {1, 32}), cudaErrorLaunchFailure},
      {"a shuffle meets a __syncwarp", on(shuffle_meets_sync, {1, 64}), cudaErrorLaunchFailure},
      {"lanes wait for each other with two masks", on(two_masks, {1, 32}), cudaErrorLaunchFailure},
      {"a value from a lane outside of the mask", on(source_outside, {1, 32})},
      {"a value from the next lane, which is outside", on(source_by_index, {1, 64})},
      {"a value from a lane that the block does not have", on(source_is_no_thread, {1, 40})},
      {"a sum by shuffles over more threads than a warp", on(tree_of_block, {1, 64})},
      {"a lane shuffles down too far", on(far_down, {1, 64})},
      {"a shuffle up by less than nothing", on(negative_up, {1, 32})},
  };
}

}  // namespace tests
