/// \file
/// Threads of one block that do not reach the same __syncthreads().

#include "tests/hazards/cases.hpp"

namespace tests {
namespace {

template <bool kCorrect>
__global__ void two_branches(const float* x, float* y) {
  const int t = threadIdx.x;
  if (kCorrect) __syncthreads();
  if (t < 32) {
    y[t] = x[t];
    if (!kCorrect) __syncthreads();  // <-- branch first
  } else {
    y[t] = 2 * x[t];
    if (!kCorrect) __syncthreads();  // <-- branch second
  }
}

/// The threads that have no element leave early.
template <bool kCorrect, int kThreads>
__global__ void leave_early(const float* x, float* y, int columns) {
  __shared__ float staged[kThreads];
  const int t = threadIdx.x;
  if (!kCorrect && t >= columns) return;
  if (t < columns) staged[t] = x[t];
  __syncthreads();  // <-- leave
  if (t < columns) y[t] = staged[columns - 1 - t];
}

/// As many rounds as a thread has elements: not the same number for all.
template <bool kCorrect>
__global__ void own_rounds(const float* x, float* y, int columns) {
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  const int end = kCorrect ? (columns + threads - 1) / threads * threads : columns;
  for (int i = t; i < end; i += threads) {
    if (i < columns) y[i] = x[i];
    __syncthreads();  // <-- rounds
  }
}

__device__ void wait_for_all() {
  __syncthreads();  // <-- helper
}

/// Only the first warp calls the function that waits.
template <bool kCorrect>
__global__ void one_warp_calls(const float* x, float* y) {
  if (kCorrect || threadIdx.x / 32 == 0) wait_for_all();
  y[threadIdx.x] = x[threadIdx.x];
  __syncthreads();  // <-- after helper
}

template <class Scalar, bool kCorrect>
__global__ void stop_searching(const float* x, float* y) {
  for (int round = 0; round < 4; ++round) {
    const Scalar value = x[threadIdx.x] + static_cast<Scalar>(round);
    if (!kCorrect && blockIdx.y == 1 && threadIdx.x == 5 && round == 2) break;
    __syncthreads();  // <-- search
    y[threadIdx.x] = static_cast<float>(value);
  }
}

}  // namespace

std::vector<Case> barrier_cases() {
  const std::string advice =
      "Every thread of a block has to reach the same __syncthreads(): take it out";
  return {
      {.name = "each branch has its own",
       .wrong = [](Memory m) { two_branches<false><<<1, 40>>>(m.x, m.y); },
       .right = [](Memory m) { two_branches<true><<<1, 40>>>(m.x, m.y); },
       .kernel = "two_branches<false>",
       .at = "branch second",
       .other = "branch first",
       .block = "0",
       .thread = "32",
       .says = {"thread 32 waits at this __syncthreads(), and thread 0 at another, at", advice}},
      {.name = "one thread leaves before it",
       .wrong = [](Memory m) { leave_early<false, 33><<<2, 33>>>(m.x, m.y, 32); },
       .right = [](Memory m) { leave_early<true, 33><<<2, 33>>>(m.x, m.y, 32); },
       .kernel = "leave_early<false, 33>",
       .at = "leave",
       .other = "",
       .block = "0",
       .thread = "32",
       .says =
           {"thread 32 has returned, and 32 others wait for it at this __syncthreads()", advice}},
      {.name = "most threads leave before it",
       .wrong = [](Memory m) { leave_early<false, 256><<<1, 256>>>(m.x, m.y, 40); },
       .right = [](Memory m) { leave_early<true, 256><<<1, 256>>>(m.x, m.y, 40); },
       .kernel = "leave_early<false, 256>",
       .at = "leave",
       .other = "",
       .block = "0",
       .thread = "40",
       .says =
           {"thread 40 has returned, and 40 others wait for it at this __syncthreads()", advice}},
      {.name = "not all threads have as many rounds",
       .wrong = [](Memory m) { own_rounds<false><<<1, dim3(16, 4)>>>(m.x, m.y, 100); },
       .right = [](Memory m) { own_rounds<true><<<1, dim3(16, 4)>>>(m.x, m.y, 100); },
       .kernel = "own_rounds<false>",
       .at = "rounds",
       .other = "",
       .block = "0",
       .thread = "(4, 2, 0)",
       .says =
           {"thread 36 has returned, and 36 others wait for it at this __syncthreads()", advice}},
      {.name = "one warp calls a function that waits",
       .wrong = [](Memory m) { one_warp_calls<false><<<1, 70>>>(m.x, m.y); },
       .right = [](Memory m) { one_warp_calls<true><<<1, 70>>>(m.x, m.y); },
       .kernel = "one_warp_calls<false>",
       .at = "after helper",
       .other = "helper",
       .block = "0",
       .thread = "32",
       .says = {"thread 32 waits at this __syncthreads(), and thread 0 at another, at", advice}},
      {.name = "a thread of a later block ends its loop early",
       .wrong = [](Memory m) { stop_searching<double, false><<<dim3(2, 2), 31>>>(m.x, m.y); },
       .right = [](Memory m) { stop_searching<double, true><<<dim3(2, 2), 31>>>(m.x, m.y); },
       .kernel = "stop_searching<double, false>",
       .at = "search",
       .other = "",
       .block = "(0, 1, 0)",
       .thread = "5",
       .says =
           {"thread 5 has returned, and 30 others wait for it at this __syncthreads()", advice}},
  };
}

}  // namespace tests
