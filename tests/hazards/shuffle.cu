/// \file
/// Shuffles, votes and __syncwarp() whose masks are not true, and shuffles out of the warp.

#include "tests/hazards/cases.hpp"

namespace tests {
namespace {

constexpr unsigned kAll = 0xffffffff;

/// The other half of the warp has nothing to do, and returns.
template <bool kCorrect>
__global__ void half_in_branch(const float* x, float* y) {
  const int t = threadIdx.x;
  if (t >= 16) return;
  y[t] = __shfl_xor_sync(kCorrect ? 0xffffu : kAll, x[t], 1);  // <-- half
}

template <class Scalar, bool kCorrect>
__device__ Scalar warp_sum(Scalar value, unsigned mask) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(mask, value, offset);  // <-- sum
  }
  return value;
}

/// The row ends in the middle of the second warp of a 2-D block.
template <class Scalar, bool kCorrect>
__global__ void row_ends(const float* x, float* y, int columns) {
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  if (!kCorrect && t >= columns) return;
  const Scalar sum = warp_sum<Scalar, kCorrect>(t < columns ? x[t] : 0, kAll);
  if (t < columns) y[t] = static_cast<float>(sum);
}

/// In the last round, not all lanes have an element.
template <bool kCorrect>
__global__ void last_round(const float* x, float* y, int columns) {
  const int end = kCorrect ? (columns + 31) / 32 * 32 : columns;
  for (int i = static_cast<int>(threadIdx.x); i < end; i += 32) {
    const float next = __shfl_xor_sync(kAll, i < columns ? x[i] : 0, 1);  // <-- round
    if (i < columns) y[i] = next;
  }
}

template <bool kCorrect>
__global__ void others_at_barrier(const float* x, float* y) {
  const int t = threadIdx.x;
  float value = x[t];
  if (t % 32 < 16) value += __shfl_xor_sync(kCorrect ? 0xffffu : kAll, value, 8);  // <-- waits
  __syncthreads();                                                                 // <-- at barrier
  y[t] = value;
}

template <bool kCorrect>
__global__ void sync_at_barrier(float* y) {
  const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  if (t != 7) __syncwarp(kCorrect ? ~(1u << 7) : kAll);  // <-- sync waits
  __syncthreads();                                       // <-- sync barrier
  y[t] = 1;
}

/// The vote is for all, and lane 32 + 3 waits elsewhere.
template <bool kCorrect>
__global__ void vote_at_barrier(const float* x, float* y) {
  const int t = threadIdx.x;
  int any = 0;
  if (t != 35 || kCorrect) any = __any_sync(kAll, x[t] > 3);  // <-- vote waits
  __syncthreads();                                            // <-- vote barrier
  y[t] = static_cast<float>(any);
}

template <bool kCorrect>
__global__ void without_oneself(const float* x, float* y) {
  const int t = threadIdx.x;
  if (t < 16) y[t] = __shfl_sync(kCorrect ? 0xffffu : 0xfffeu, x[t], 1);  // <-- oneself
}

template <bool kCorrect>
__global__ void vote_without_oneself(const float* x, float* y) {
  const int t = threadIdx.x;
  const unsigned low = 0xffu;
  const unsigned votes = __ballot_sync(kCorrect ? kAll : low, x[t] > 4);  // <-- vote oneself
  y[t] = static_cast<float>(votes);
}

template <bool kCorrect>
__global__ void sync_without_oneself(float* y) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const unsigned half = (lane < 16) == kCorrect ? 0xffffu : 0xffff0000u;
  __syncwarp(half);  // <-- sync oneself
  y[threadIdx.x] = 1;
}

template <bool kCorrect>
__global__ void two_calls(const float* x, float* y) {
  const int t = threadIdx.x;
  const unsigned half = t < 16 ? 0xffffu : 0xffff0000u;
  if (t < 16) {
    y[t] = __shfl_xor_sync(kCorrect ? half : kAll, x[t], 1);  // <-- call first
  } else {
    y[t] = __shfl_xor_sync(kCorrect ? half : kAll, x[t], 2);  // <-- call second
  }
}

template <bool kCorrect>
__global__ void shuffle_meets_sync(const float* x, float* y) {
  const int t = threadIdx.x;
  float value = x[t];
  if (kCorrect || t % 2 == 0) value = __shfl_xor_sync(kAll, value, 2);  // <-- kind first
  if (kCorrect || t % 2 == 1) __syncwarp();                             // <-- kind second
  y[t] = value;
}

/// Lanes 0 and 1 name all, the others do not name these two.
template <bool kCorrect>
__global__ void two_masks(const float* x, float* y) {
  const int t = threadIdx.x;
  const unsigned mask = t < 2 && !kCorrect ? 0xfu : 0x3u << (t / 2 * 2);
  if (t < 4) {
    y[t] = __shfl_xor_sync(mask, x[t], 1);  // <-- masks first
    __syncwarp(0xf);                        // <-- masks second
  }
}

template <bool kCorrect>
__global__ void source_outside(const float* x, float* y) {
  const int t = threadIdx.x;
  if (t < 16) y[t] = __shfl_down_sync(0xffff, x[t], 8, kCorrect ? 16 : 32);  // <-- outside
}

template <bool kCorrect>
__global__ void source_by_index(const float* x, float* y) {
  const int t = threadIdx.x;
  if (t % 32 >= 4) return;
  y[t] = __shfl_sync(0xf, x[t], kCorrect ? (t + 1) % 4 : t + 1);  // <-- index
}

/// The last warp of a block of 40 has 8 lanes.
template <bool kCorrect>
__global__ void source_is_no_thread(const float* x, float* y) {
  const int t = threadIdx.x;
  double value = x[t];
  const int first = kCorrect && t >= 32 ? 4 : 16;
  for (int offset = first; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAll, value, offset);  // <-- no thread
  }
  y[t] = static_cast<float>(value);
}

/// The tree of a whole block, by shuffles alone.
template <bool kCorrect>
__global__ void tree_of_block(const float* x, float* y) {
  float value = x[threadIdx.x];
  for (int offset = kCorrect ? 16 : 32; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAll, value, offset);  // <-- tree
  }
  y[threadIdx.x] = value;
}

/// In double, and only lane 3 of the second warp goes too far.
template <bool kCorrect>
__global__ void far_down(const float* x, float* y) {
  const unsigned t = threadIdx.x;
  const unsigned distance = t == 35 && !kCorrect ? 32 : 31;
  const double other = __shfl_down_sync(kAll, static_cast<double>(x[t]), distance);  // <-- down
  y[t] = static_cast<float>(other);
}

/// 16 lanes to the left of lane 17, and not the other way round.
template <bool kCorrect>
__global__ void negative_up(const float* x, float* y) {
  const int t = threadIdx.x;
  const int distance = kCorrect ? 16 : t - 17;
  y[t] = __shfl_up_sync(kAll, x[t], static_cast<unsigned>(distance));  // <-- up
}

/// From the lane before; that of lane 0 is lane 31, and a source beyond 31 begins again at 0.
template <bool kCorrect>
__global__ void negative_xor(const float* x, float* y) {
  const int t = threadIdx.x;
  const float before = __shfl_sync(kAll, x[t], t + 31);
  y[t] = kCorrect ? before : __shfl_xor_sync(kAll, before, -1);  // <-- xor
}

}  // namespace

std::vector<Case> shuffle_cases() {
  const std::string advice = "Name in the mask the lanes that make this call, no others";
  return {
      {.name = "half of the lanes have returned",
       .wrong = [](Memory m) { half_in_branch<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { half_in_branch<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "half_in_branch<false>",
       .at = "half",
       .other = "",
       .block = "0",
       .thread = "0",
       .says =
           {"the mask of this shuffle names lanes 16 to 31 of warp 0, which have returned",
            advice}},
      {.name = "lanes beyond the row have returned, in float",
       .wrong = [](Memory m) { row_ends<float, false><<<1, dim3(16, 4)>>>(m.x, m.y, 63); },
       .right = [](Memory m) { row_ends<float, true><<<1, dim3(16, 4)>>>(m.x, m.y, 63); },
       .kernel = "row_ends<float, false>",
       .at = "sum",
       .other = "",
       .block = "0",
       .thread = "(0, 2, 0)",
       .says = {"names lane 31 of warp 1, which has returned", advice}},
      {.name = "lanes beyond the row have returned, in double",
       .wrong = [](Memory m) { row_ends<double, false><<<3, 96>>>(m.x, m.y, 70); },
       .right = [](Memory m) { row_ends<double, true><<<3, 96>>>(m.x, m.y, 70); },
       .kernel = "row_ends<double, false>",
       .at = "sum",
       .other = "",
       .block = "0",
       .thread = "64",
       .says = {"names lanes 6 to 31 of warp 2, which have returned", advice}},
      {.name = "not all lanes have a last round",
       .wrong = [](Memory m) { last_round<false><<<1, 32>>>(m.x, m.y, 40); },
       .right = [](Memory m) { last_round<true><<<1, 32>>>(m.x, m.y, 40); },
       .kernel = "last_round<false>",
       .at = "round",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"names lanes 8 to 31 of warp 0, which have returned", advice}},
      {.name = "a shuffle waits for lanes at a barrier",
       .wrong = [](Memory m) { others_at_barrier<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { others_at_barrier<true><<<1, 64>>>(m.x, m.y); },
       .kernel = "others_at_barrier<false>",
       .at = "waits",
       .other = "at barrier",
       .block = "0",
       .thread = "0",
       .says =
           {"lane 0 of warp 0 waits in a shuffle for lanes 16 to 31, which never arrive: lane 16 "
            "waits at the __syncthreads() at",
            advice},
       .error = cudaErrorLaunchFailure},
      {.name = "a __syncwarp waits for a lane at a barrier",
       .wrong = [](Memory m) { sync_at_barrier<false><<<2, dim3(4, 4, 2)>>>(m.y); },
       .right = [](Memory m) { sync_at_barrier<true><<<2, dim3(4, 4, 2)>>>(m.y); },
       .kernel = "sync_at_barrier<false>",
       .at = "sync waits",
       .other = "sync barrier",
       .block = "0",
       .thread = "0",
       .says =
           {"lane 0 of warp 0 waits in __syncwarp() for lane 7, which never arrives: lane 7 waits"},
       .error = cudaErrorLaunchFailure},
      {.name = "a vote waits for a lane at a barrier",
       .wrong = [](Memory m) { vote_at_barrier<false><<<1, 50>>>(m.x, m.y); },
       .right = [](Memory m) { vote_at_barrier<true><<<1, 50>>>(m.x, m.y); },
       .kernel = "vote_at_barrier<false>",
       .at = "vote waits",
       .other = "vote barrier",
       .block = "0",
       .thread = "32",
       .says =
           {"lane 0 of warp 1 waits in a vote for lane 3, which never arrives: lane 3 waits at the "
            "__syncthreads() at",
            advice},
       .error = cudaErrorLaunchFailure},
      {.name = "a shuffle leaves its own lane out",
       .wrong = [](Memory m) { without_oneself<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { without_oneself<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "without_oneself<false>",
       .at = "oneself",
       .other = "",
       .block = "0",
       .thread = "0",
       .says =
           {"thread 0 calls a shuffle with a mask, 0x0000fffe, that does not name its own lane, 0",
            advice},
       .error = cudaErrorLaunchFailure},
      {.name = "a vote leaves its own lane out",
       .wrong = [](Memory m) { vote_without_oneself<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { vote_without_oneself<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "vote_without_oneself<false>",
       .at = "vote oneself",
       .other = "",
       .block = "0",
       .thread = "8",
       .says =
           {"thread 8 calls a vote with a mask, 0x000000ff, that does not name its own lane, 8"},
       .error = cudaErrorLaunchFailure},
      {.name = "a __syncwarp leaves its own lane out",
       .wrong = [](Memory m) { sync_without_oneself<false><<<1, 96>>>(m.y); },
       .right = [](Memory m) { sync_without_oneself<true><<<1, 96>>>(m.y); },
       .kernel = "sync_without_oneself<false>",
       .at = "sync oneself",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 calls __syncwarp() with a mask, 0xffff0000, that does not name its own"},
       .error = cudaErrorLaunchFailure},
      {.name = "lanes meet in two shuffles",
       .wrong = [](Memory m) { two_calls<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { two_calls<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "two_calls<false>",
       .at = "call second",
       .other = "call first",
       .block = "0",
       .thread = "16",
       .says =
           {"lane 16 of warp 0 meets lane 0 here, which is in another call (a shuffle, mask "
            "0xffffffff, at",
            advice},
       .error = cudaErrorLaunchFailure},
      {.name = "a shuffle meets a __syncwarp",
       .wrong = [](Memory m) { shuffle_meets_sync<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { shuffle_meets_sync<true><<<1, 64>>>(m.x, m.y); },
       .kernel = "shuffle_meets_sync<false>",
       .at = "kind second",
       .other = "kind first",
       .block = "0",
       .thread = "1",
       .says = {"lane 1 of warp 0 meets lane 0 here", "its own (__syncwarp(), mask 0xffffffff)"},
       .error = cudaErrorLaunchFailure},
      {.name = "lanes wait for each other with two masks",
       .wrong = [](Memory m) { two_masks<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { two_masks<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "two_masks<false>",
       .at = "masks second",
       .other = "masks first",
       .block = "0",
       .thread = "2",
       .says = {"which is in another call"},
       .error = cudaErrorLaunchFailure},
      {.name = "a value from a lane outside of the mask",
       .wrong = [](Memory m) { source_outside<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { source_outside<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "source_outside<false>",
       .at = "outside",
       .other = "",
       .block = "0",
       .thread = "8",
       .says =
           {"lane 8 of warp 0 takes a value from lane 16, which takes no part in this shuffle"}},
      {.name = "a value from the next lane, which is outside",
       .wrong = [](Memory m) { source_by_index<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { source_by_index<true><<<1, 64>>>(m.x, m.y); },
       .kernel = "source_by_index<false>",
       .at = "index",
       .other = "",
       .block = "0",
       .thread = "3",
       .says = {"lane 3 of warp 0 takes a value from lane 4, which takes no part in this shuffle"}},
      {.name = "a value from a lane that the block does not have",
       .wrong = [](Memory m) { source_is_no_thread<false><<<1, 40>>>(m.x, m.y); },
       .right = [](Memory m) { source_is_no_thread<true><<<1, 40>>>(m.x, m.y); },
       .kernel = "source_is_no_thread<false>",
       .at = "no thread",
       .other = "",
       .block = "0",
       .thread = "32",
       .says =
           {"lane 0 of warp 1 takes a value from lane 16, which takes no part in this shuffle"}},
      {.name = "a sum by shuffles over more threads than a warp",
       .wrong = [](Memory m) { tree_of_block<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { tree_of_block<true><<<1, 64>>>(m.x, m.y); },
       .kernel = "tree_of_block<false>",
       .at = "tree",
       .other = "",
       .block = "0",
       .thread = "0",
       .says =
           {"lane 0 shuffles over a distance of 32, which leaves the warp",
            "A warp has 32 lanes, so distances are 0 to 31: sums of more threads go through shared "
            "memory"}},
      {.name = "a lane shuffles down too far",
       .wrong = [](Memory m) { far_down<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { far_down<true><<<1, 64>>>(m.x, m.y); },
       .kernel = "far_down<false>",
       .at = "down",
       .other = "",
       .block = "0",
       .thread = "35",
       .says = {"lane 3 shuffles over a distance of 32, which leaves the warp"}},
      {.name = "a shuffle up by less than nothing",
       .wrong = [](Memory m) { negative_up<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { negative_up<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "negative_up<false>",
       .at = "up",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"lane 0 shuffles over a distance of -17, which leaves the warp"}},
      {.name = "a shuffle over a negative distance",
       .wrong = [](Memory m) { negative_xor<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { negative_xor<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "negative_xor<false>",
       .at = "xor",
       .other = "",
       .block = "0",
       .thread = "31",
       .says = {"lane 31 shuffles over a distance of -1, which leaves the warp"}},
  };
}

}  // namespace tests
