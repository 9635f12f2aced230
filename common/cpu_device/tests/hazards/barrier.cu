/// \file
/// Threads of one block that do not reach the same __syncthreads().

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

__global__ void two_branches(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if (correct) __syncthreads();
  if (t < 32) {
    y[t] = x[t];
    if (!correct) __syncthreads();  // <-- branch first
  } else {
    y[t] = 2 * x[t];
    if (!correct) __syncthreads();  // <-- branch second
  }
}

/// Lanes of one warp.
__global__ void odd_and_even(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if (correct ? t < 0 : t % 2 == 0) {
    y[t] = x[t];
    __syncthreads();  // <-- even
  } else {
    y[t] = 2 * x[t];
    __syncthreads();  // <-- odd
  }
}

/// The threads that have no element leave early.
template <int kColumns>
__global__ void leave_early(const float* x, float* y, bool correct) {
  __shared__ float staged[256];
  const int t = threadIdx.x;
  if (!correct && t >= kColumns) return;
  if (t < kColumns) staged[t] = x[t];
  __syncthreads();  // <-- leave
  if (t < kColumns) y[t] = staged[kColumns - 1 - t];
}

/// As many rounds as a thread has elements: not the same number for all.
__global__ void own_rounds(const float* x, float* y, bool correct) {
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  const int columns = 100;
  const int end = correct ? (columns + threads - 1) / threads * threads : columns;
  for (int i = t; i < end; i += threads) {
    if (i < columns) y[i] = x[i];
    __syncthreads();  // <-- rounds
  }
}

__device__ void wait_for_all() {
  __syncthreads();  // <-- helper
}

/// Only the first warp calls the function that waits.
__global__ void one_warp_calls(const float* x, float* y, bool correct) {
  if (correct || threadIdx.x / 32 == 0) wait_for_all();
  y[threadIdx.x] = x[threadIdx.x];
  __syncthreads();  // <-- after helper
}

__device__ float sum_of_block(float value, float* values) {
  values[threadIdx.x] = value;
  __syncthreads();  // <-- sum
  float sum = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) sum += values[i];
  return sum;
}

/// One function, called from two branches: which, all threads decide alike, or not.
__global__ void sum_in_branches(const float* x, float* y, bool correct) {
  __shared__ float values[64];
  const unsigned t = threadIdx.x;
  const unsigned own = blockIdx.x * blockDim.x + t;
  if ((correct ? blockIdx.x : t) % 2 == 0) {
    y[own] = sum_of_block(x[t], values);  // <-- sum first
  } else {
    y[own] = sum_of_block(2 * x[t], values);  // <-- sum second
  }
}

/// Branches that do nothing else.
__global__ void wait_in_branches(const float* x, float* y, bool correct) {
  if ((correct ? blockIdx.x : threadIdx.x) % 2 == 0) {
    wait_for_all();  // <-- wait first
  } else {
    wait_for_all();  // <-- wait second
  }
  y[blockIdx.x * blockDim.x + threadIdx.x] = x[threadIdx.x];
}

/// The same of a function that is not inlined, and that has another one wait. Its threads are whole
/// warps.
__device__ __attribute__((noinline)) float next_sum(float value, float* values) {
  return 1 + sum_of_block(value, values);
}
__global__ void sum_of_warps(const float* x, float* y, bool correct) {
  __shared__ float values[64];
  const unsigned t = threadIdx.x;
  const unsigned own = blockIdx.x * blockDim.x + t;
  if ((correct ? blockIdx.x : t / 32) == 0) {
    y[own] = next_sum(x[t], values);  // <-- next first
  } else {
    y[own] = next_sum(2 * x[t], values);  // <-- next second
  }
}

template <class Scalar>
__global__ void stop_searching(const float* x, float* y, bool correct) {
  for (int round = 0; round < 4; ++round) {
    const Scalar value = x[threadIdx.x] + static_cast<Scalar>(round);
    if (!correct && blockIdx.y == 1 && threadIdx.x == 5 && round == 2) break;
    __syncthreads();  // <-- search
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    y[block * blockDim.x + threadIdx.x] = static_cast<float>(value);
  }
}

/// A barrier that one warp has to itself: there it is, between the two of a race.
__global__ void one_warp_waits(const float* x, float* y, bool correct) {
  __shared__ float first;
  if (threadIdx.x / 32 == 0) {
    if (threadIdx.x == 0) first = x[0];
    if (!correct) __syncthreads();  // <-- of one warp
  }
  if (correct) __syncthreads();
  y[threadIdx.x] = first;
}

}  // namespace

Case barrier_of_one_warp() {
  return {"one warp waits in a branch", on(one_warp_waits, {1, 64})};
}

std::vector<Case> barrier_cases() {
  return {
      {"each branch has its own", on(two_branches, {1, 40})},
      {"lanes of one warp have two", on(odd_and_even, {1, 32})},
      {"most threads leave before it", on(leave_early<40>, {1, 256})},
      {"not all threads have as many rounds", on(own_rounds, {1, dim3(16, 4)})},
      {"one warp calls a function that waits", on(one_warp_calls, {1, 70})},
      {"lanes of one warp call a function that waits in two branches",
       on(sum_in_branches, {2, 64})},
      {"lanes do nothing but call a function that waits", on(wait_in_branches, {2, 64})},
      {"two warps call a function that is not inlined", on(sum_of_warps, {2, 64})},
      {"a thread of a later block ends its loop early",
       on(stop_searching<double>, {dim3(2, 2), 31})},
  };
}

}  // namespace tests
