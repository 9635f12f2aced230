/// \file
/// Mistakes with asynchronous copies, barriers, groups and CUB, and a broken promise.

#include <cooperative_groups.h>
#include <cuda_pipeline.h>

#include <cassert>
#include <cub/block/block_reduce.cuh>
#include <cuda/barrier>

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

namespace cg = cooperative_groups;

/// A thread's own copy, which it does not wait for.
__global__ void copy_without_wait(const float* x, float* y, bool correct) {
  __shared__ float row[64];
  const unsigned t = threadIdx.x;
  __pipeline_memcpy_async(&row[t], &x[t], sizeof(float));  // <-- begun
  __pipeline_commit();
  if (correct) __pipeline_wait_prior(0);
  y[t] = row[t];  // <-- copy
}

/// A copy of another thread, which has not been waited for by all.
__global__ void copy_of_another(const float* x, float* y, bool correct) {
  __shared__ float row[64];
  const unsigned t = threadIdx.x;
  __pipeline_memcpy_async(&row[t], &x[t], sizeof(float));  // <-- copied
  __pipeline_commit();
  __pipeline_wait_prior(0);
  if (correct) __syncthreads();
  y[t] = row[63 - t];  // <-- of another
}

using Barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void barrier_without_count(const float* x, float* y, bool correct) {
  __shared__ Barrier barrier;
  if (correct && threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  barrier.arrive_and_wait();  // <-- count
  y[threadIdx.x] = x[threadIdx.x];
}

/// Arrives, and reads before it has waited.
__global__ void read_before_wait(const float* x, float* y, bool correct) {
  __shared__ Barrier barrier;
  __shared__ float row[64];
  const unsigned t = threadIdx.x;
  if (t == 0) init(&barrier, blockDim.x);
  __syncthreads();
  row[t] = x[t];  // <-- before arrival
  const auto token = barrier.arrive();
  if (correct) barrier.wait(token);
  y[t] = t == 63 ? row[0] : 0;  // <-- before wait
  if (!correct) barrier.wait(token);
}

/// Tiles that exchange values through shared memory.
__global__ void tile_without_sync(const float* x, float* y, bool correct) {
  __shared__ float row[64];
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  const unsigned first = tile.meta_group_rank() * tile.size();
  row[first + tile.thread_rank()] = x[threadIdx.x];  // <-- tile writes
  if (correct) tile.sync();
  y[threadIdx.x] = row[first + 7 - tile.thread_rank()];  // <-- tile reads
}

/// The same storage twice.
__global__ void storage_again(const float* x, float* y, bool correct) {
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(x[threadIdx.x]);  // <-- first
  if (correct) __syncthreads();
  const auto larger = [](float u, float v) { return u < v ? v : u; };
  const float most = Reduce(storage).Reduce(x[threadIdx.x], larger);  // <-- again
  if (threadIdx.x == 0) y[0] = sum + most;
}

__global__ void __launch_bounds__(64) promised(const float* x, float* y) {  // <-- promise
  y[threadIdx.x] = x[threadIdx.x];
}

/// Half of the threads that the barrier is for.
__global__ void half_arrives(const float* x, float* y, bool correct) {
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 32 || correct) asm volatile("bar.sync 1, 64;" ::: "memory");  // <-- half
}

__global__ void half_a_warp(const float* x, float* y, bool correct) {
  y[threadIdx.x] = x[threadIdx.x];
  if (correct) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
  } else if (threadIdx.x < 48) {
    asm volatile("bar.sync 1, 48;" ::: "memory");  // <-- half a warp
  }
}

__global__ void asserts(const float* x, float* y, bool correct) {
  assert(correct || threadIdx.x < 3);  // <-- assertion
  y[threadIdx.x] = x[threadIdx.x];
}

/// Two branches have the same barrier: of a warp's lanes or, which is right, of two warps.
__global__ void lanes_at_two_barriers(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if ((correct ? t / 32 : t) % 2 == 0) {
    y[t] = x[t];
    asm volatile("bar.sync 1, 64;" ::: "memory");  // <-- even
  } else {
    y[t] = 2 * x[t];
    asm volatile("bar.sync 1, 64;" ::: "memory");  // <-- odd
  }
}

__device__ void arrive_at_one() {
  asm volatile("bar.arrive 1, 64;" ::: "memory");  // <-- arrive
}

/// The same of a function that only arrives, and is called in two branches.
__global__ void lanes_arrive(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if ((correct ? t / 32 : t) % 2 == 0) {
    y[t] = x[t];
    arrive_at_one();  // <-- arrive even
  } else {
    y[t] = 2 * x[t];
    arrive_at_one();  // <-- arrive odd
  }
}

}  // namespace

std::vector<Case> construct_cases() {
  return {
      {"a copy that nobody waits for", on(copy_without_wait, {1, 64})},
      {"another thread's copy, without a barrier", on(copy_of_another, {1, 64})},
      {"a barrier without a count", on(barrier_without_count, {1, 64}), cudaErrorLaunchFailure},
      {"a read between arrival and wait", on(read_before_wait, {1, 64})},
      {"a tile that does not wait", on(tile_without_sync, {1, 64})},
      {"a block's storage that is used again", on(storage_again, {1, 64})},
      {"a named barrier that too few arrive at", on(half_arrives, {1, 64}), cudaErrorLaunchFailure},
      {"a named barrier for half a warp", on(half_a_warp, {1, 64}), cudaErrorLaunchFailure},
      {"an assertion that does not hold", on(asserts, {1, 32}), cudaErrorAssert},
      {"lanes of a warp at two named barriers", on(lanes_at_two_barriers, {1, 64})},
      {"lanes of a warp that arrive in two branches", on(lanes_arrive, {1, 64})},
      {"more threads than promised",
       [](Memory m, bool correct) { promised<<<1, correct ? 64 : 65>>>(m.x, m.y); },
       cudaErrorLaunchOutOfResources},
  };
}

}  // namespace tests
