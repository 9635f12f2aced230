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

__global__ void others_at_barrier(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  float value = x[t];
  if (t % 32 < 16) value += __shfl_xor_sync(correct ? 0xffffu : kAll, value, 8);  // <-- waits
  __syncthreads();                                                                // <-- at barrier
  y[t] = value;
}

__global__ void sync_at_barrier(const float*, float* y, bool correct) {
  const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  if (t != 7) __syncwarp(correct ? ~(1u << 7) : kAll);  // <-- sync waits
  __syncthreads();                                      // <-- sync barrier
  y[t] = 1;
}

/// The vote is for all, and lane 32 + 3 waits elsewhere.
__global__ void vote_at_barrier(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  int any = 0;
  if (t != 35 || correct) any = __any_sync(kAll, x[t] > 3);  // <-- vote waits
  __syncthreads();                                           // <-- vote barrier
  y[t] = static_cast<float>(any);
}

__global__ void without_oneself(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if (t < 16) y[t] = __shfl_sync(correct ? 0xffffu : 0xfffeu, x[t], 1);  // <-- oneself
}

__global__ void vote_without_oneself(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  const unsigned low = 0xffu;
  const unsigned votes = __ballot_sync(correct ? kAll : low, x[t] > 4);  // <-- vote oneself
  y[t] = static_cast<float>(votes);
}

__global__ void sync_without_oneself(const float*, float* y, bool correct) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned half = (lane < 16) == correct ? 0xffffu : 0xffff0000u;
  __syncwarp(half);  // <-- sync oneself
  y[threadIdx.x] = 1;
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
  const std::string advice =
      "Let all lanes that the mask names make this call, or name in it only those that do: "
      "0xffffffff is for code that the whole warp reaches";
  const std::string source =
      "Take a value only from a lane that makes this call, too, and that its mask names";
  const std::string distance =
      "A warp has 32 lanes, so distances are 0 to 31: sums of more threads go through shared "
      "memory";
  return {
      {"lanes beyond the row have returned", on(row_ends<float, 63>, {1, dim3(16, 4)}),
       "<sum>: the mask of this shuffle names lane 31 of warp 1, which has returned",
       "row_ends<float, 63>, block 0, thread (0, 2, 0)", advice},
      {"not all lanes have a last round", on(last_round, {1, 32}),
       "<round>: the mask of this shuffle names lanes 8 to 31 of warp 0, which have returned",
       "last_round, block 0, thread 0", advice},
      {"a shuffle waits for lanes at a barrier", on(others_at_barrier, {1, 64}),
       "<waits>: lane 0 of warp 0 waits in a shuffle for lanes 16 to 31, which never arrive: lane "
       "16 waits at the __syncthreads() at <at barrier>",
       "others_at_barrier, block 0, thread 0", advice, cudaErrorLaunchFailure},
      {"a __syncwarp waits for a lane at a barrier", on(sync_at_barrier, {2, dim3(4, 4, 2)}),
       "<sync waits>: lane 0 of warp 0 waits in __syncwarp() for lane 7, which never arrives: lane "
       "7 waits at the __syncthreads() at <sync barrier>",
       "sync_at_barrier, block 0, thread 0", advice, cudaErrorLaunchFailure},
      {"a vote waits for a lane at a barrier", on(vote_at_barrier, {1, 50}),
       "<vote waits>: lane 0 of warp 1 waits in a vote for lane 3, which never arrives: lane 3 "
       "waits at the __syncthreads() at <vote barrier>",
       "vote_at_barrier, block 0, thread 32", advice, cudaErrorLaunchFailure},
      {"a shuffle leaves its own lane out", on(without_oneself, {1, 32}),
       "<oneself>: thread 0 calls a shuffle with a mask, 0x0000fffe, that does not name its own "
       "lane, 0",
       "without_oneself, block 0, thread 0", advice, cudaErrorLaunchFailure},
      {"a vote leaves its own lane out", on(vote_without_oneself, {1, 32}),
       "<vote oneself>: thread 8 calls a vote with a mask, 0x000000ff, that does not name its own "
       "lane, 8",
       "vote_without_oneself, block 0, thread 8", advice, cudaErrorLaunchFailure},
      {"a __syncwarp leaves its own lane out", on(sync_without_oneself, {1, 96}),
       "<sync oneself>: thread 0 calls __syncwarp() with a mask, 0xffff0000, that does not name "
       "its own lane, 0",
       "sync_without_oneself, block 0, thread 0", advice, cudaErrorLaunchFailure},
      {"lanes meet in two shuffles", on(two_calls, {1, 32}),
       "<call second>: lane 16 of warp 0 meets lane 0 here, which is in another call "
       "(__shfl_xor_sync(), mask 0xffffffff, at <call first>) than its own (__shfl_down_sync(), "
       "mask 0xffffffff)",
       "two_calls, block 0, thread 16", advice, cudaErrorLaunchFailure},
      {"lanes meet in two votes", on(two_votes, {1, 32}),
       "<other vote>: lane 1 of warp 0 meets lane 0 here, which is in another call (__any_sync(), "
       "mask 0xffffffff, at <vote>) than its own (__all_sync(), mask 0xffffffff)",
       "two_votes, block 0, thread 1", advice, cudaErrorLaunchFailure},
      {"lanes meet in two reductions", on(two_reductions, {1, 32}),
       "<both>: lane 9 of warp 0 meets lane 0 here, which is in another call (__reduce_add_sync(), "
       "mask 0xffffffff, at <both>) than its own (__reduce_max_sync(), mask 0xffffffff)",
       "two_reductions, block 0, thread 9", advice, cudaErrorLaunchFailure},
      {"a shuffle meets a __syncwarp", on(shuffle_meets_sync, {1, 64}),
       "<kind second>: lane 1 of warp 0 meets lane 0 here, which is in another call "
       "(__shfl_xor_sync(), mask 0xffffffff, at <kind first>) than its own (__syncwarp(), mask "
       "0xffffffff)",
       "shuffle_meets_sync, block 0, thread 1", advice, cudaErrorLaunchFailure},
      {"lanes wait for each other with two masks", on(two_masks, {1, 32}),
       "<masks second>: lane 2 of warp 0 meets lane 0 here, which is in another call "
       "(__shfl_xor_sync(), mask 0x0000000f, at <masks first>) than its own (__syncwarp(), mask "
       "0x0000000f)",
       "two_masks, block 0, thread 2", advice, cudaErrorLaunchFailure},
      {"a value from a lane outside of the mask", on(source_outside, {1, 32}),
       "<outside>: lane 8 of warp 0 takes a value from lane 16, which takes no part in this "
       "shuffle",
       "source_outside, block 0, thread 8", source},
      {"a value from the next lane, which is outside", on(source_by_index, {1, 64}),
       "<index>: lane 3 of warp 0 takes a value from lane 4, which takes no part in this shuffle",
       "source_by_index, block 0, thread 3", source},
      {"a value from a lane that the block does not have", on(source_is_no_thread, {1, 40}),
       "<no thread>: lane 0 of warp 1 takes a value from lane 16, which takes no part in this "
       "shuffle",
       "source_is_no_thread, block 0, thread 32", source},
      {"a sum by shuffles over more threads than a warp", on(tree_of_block, {1, 64}),
       "<tree>: lane 0 shuffles over a distance of 32, which leaves the warp",
       "tree_of_block, block 0, thread 0", distance},
      {"a lane shuffles down too far", on(far_down, {1, 64}),
       "<down>: lane 3 shuffles over a distance of 32, which leaves the warp",
       "far_down, block 0, thread 35", distance},
      {"a shuffle up by less than nothing", on(negative_up, {1, 32}),
       "<up>: lane 0 shuffles over a distance of -17, which leaves the warp",
       "negative_up, block 0, thread 0", distance},
  };
}

}  // namespace tests
