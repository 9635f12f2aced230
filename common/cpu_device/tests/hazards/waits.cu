/// \file
/// Threads wait for others that never come.

#include <cooperative_groups.h>

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

__global__ void nobody_raises(const float*, float* y, bool correct) {
  volatile float* const flag = y + kFlag;
  if (blockIdx.x == 1 && correct) *flag = 1;
  if (blockIdx.x == 0) {
    while (*flag == 0) {  // <-- never raised
    }
  }
}

/// Two flags, of which the thread reads one after the other.
__global__ void one_of_two(const float*, float* y, bool correct) {
  volatile float* const flag = y + kFlag;
  if (threadIdx.x == 32) {
    flag[1] = 0;
    if (correct) flag[1] = 1;
    flag[0] = 1;
  }
  if (threadIdx.x == 0) {
    while (flag[0] == 0 || flag[1] == 0) {  // <-- second flag
    }
  }
}

/// The thread that would raise the flag waits for the one that waits.
__global__ void raised_behind_barrier(const float*, float* y, bool correct) {
  volatile float* const flag = y + kFlag;
  if (threadIdx.x == 32 && correct) *flag = 1;
  if (threadIdx.x == 0) {
    while (*flag == 0) {  // <-- before the barrier
    }
  }
  __syncthreads();
  if (threadIdx.x == 32) *flag = 1;
}

__global__ void takes_lock_twice(const float*, float* y, bool correct) {
  auto* const lock = reinterpret_cast<unsigned*>(y + kFlag);
  for (int i = 0; i < 2; ++i) {
    while (atomicCAS(lock, 0u, 1u) != 0) {  // <-- lock
    }
    if (correct || i == 1) atomicExch(lock, 0u);
  }
}

/// All blocks wait until all have arrived: right of as many as fit on the device.
__global__ void barrier_of_grid(const float*, float* y, bool) {
  auto* const arrived = reinterpret_cast<unsigned*>(y + kFlag);
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1u);
    while (atomicAdd(arrived, 0u) < gridDim.x) {  // <-- all blocks
    }
  }
  __syncthreads();
}

__global__ void syncs_grid(const float*, float*, bool) {
  cooperative_groups::this_grid().sync();  // <-- grid
}

void launch_grid_barrier(Memory memory, bool correct) {
  void* arguments[] = {&memory.x, &memory.y, &correct};
  if (correct) {
    cudaLaunchCooperativeKernel(syncs_grid, 2, 32, arguments);
  } else {
    cudaLaunchKernel(syncs_grid, 2, 32, arguments);
  }
}

}  // namespace

std::vector<Case> wait_cases() {
  constexpr int kFit = 2 * 2;  // blocks, of 1024 threads
  return {
      {"a flag that nobody raises", on_flag(nobody_raises, {2, 1}), cudaErrorLaunchFailure},
      {"one of two flags that nobody raises", on_flag(one_of_two, {1, 64}), cudaErrorLaunchFailure},
      {"a flag that is raised behind a barrier", on_flag(raised_behind_barrier, {1, 64}),
       cudaErrorLaunchFailure},
      {"a lock that its thread holds", on_flag(takes_lock_twice, {1, 1}), cudaErrorLaunchFailure},
      {"a barrier of more blocks than fit", on_flag(barrier_of_grid, {kFit, 1024}, 1),
       cudaErrorLaunchFailure},
      {"a barrier of the grid in a plain launch", launch_grid_barrier, cudaErrorLaunchFailure},
  };
}

}  // namespace tests
