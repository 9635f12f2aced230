/// \file
/// Mistakes with the shared memory and the barriers of a cluster.

#include <cooperative_groups.h>

#include <utility>

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

namespace cg = cooperative_groups;
constexpr int kThreads = 64;

/// The place of a thread in the grid.
__device__ unsigned place() {
  return blockIdx.x * kThreads + threadIdx.x;
}

/// Writes into the other block's memory, which may not have begun.
__global__ void writes_early(const float* x, float* y, bool correct) {
  __shared__ float row[kThreads];
  const auto cluster = cg::this_cluster();
  float* const other = cluster.map_shared_rank(row, cluster.block_rank() ^ 1);
  if (correct) cluster.sync();
  other[threadIdx.x] = x[place()];  // <-- early
  cluster.sync();
  y[place()] = row[threadIdx.x];
}

/// Returns while the other block may still read.
__global__ void leaves(const float* x, float* y, bool correct) {
  __shared__ float row[kThreads];
  const auto cluster = cg::this_cluster();
  row[threadIdx.x] = x[place()];
  cluster.sync();
  y[place()] = cluster.map_shared_rank(row, cluster.block_rank() ^ 1)[threadIdx.x];  // <-- late
  if (correct) cluster.sync();
}

/// Reads what the other block writes, without a barrier of the cluster between the two.
__global__ void reads_too_soon(const float* x, float* y, bool correct) {
  __shared__ float row[kThreads];
  const auto cluster = cg::this_cluster();
  row[threadIdx.x] = 0;
  cluster.sync();
  cluster.map_shared_rank(row, cluster.block_rank() ^ 1)[threadIdx.x] = x[place()];  // <-- sent
  if (correct) cluster.sync();
  y[place()] = row[threadIdx.x];  // <-- received
  cluster.sync();
}

/// Writes between arrival and wait what others read behind the barrier.
__global__ void writes_after_arrival(const float* x, float* y, bool correct) {
  __shared__ float row[kThreads];
  const auto cluster = cg::this_cluster();
  cluster.sync();
  float* const other = cluster.map_shared_rank(row, cluster.block_rank() ^ 1);
  if (correct) other[threadIdx.x] = x[place()];
  auto arrival = cluster.barrier_arrive();
  if (!correct) other[threadIdx.x] = x[place()];  // <-- after arrival
  cluster.barrier_wait(std::move(arrival));
  y[place()] = row[threadIdx.x];  // <-- behind
  cluster.sync();
}

/// Of the two blocks, one does not come to the barrier.
__global__ void one_block_returns(const float* x, float* y, bool correct) {
  const auto cluster = cg::this_cluster();
  y[place()] = x[place()];
  if (cluster.block_rank() == 0 || correct) cluster.sync();  // <-- alone
}

/// Arrives at the second barrier before it has waited at the first.
__global__ void arrives_twice(const float* x, float* y, bool correct) {
  auto cluster = cg::this_cluster();
  auto arrival = cluster.barrier_arrive();
  if (correct) cluster.barrier_wait(std::move(arrival));
  cluster.barrier_arrive();  // <-- twice
  cluster.barrier_wait();
  y[place()] = x[place()];
}

/// Reads an element of the other block that nobody has written.
__global__ void reads_nothing(const float* x, float* y, bool correct) {
  __shared__ float row[kThreads];
  const auto cluster = cg::this_cluster();
  if (threadIdx.x < 32 || correct) row[threadIdx.x] = x[place()];
  cluster.sync();
  const float* const other = cluster.map_shared_rank(row, cluster.block_rank() ^ 1);
  y[place()] = other[threadIdx.x];  // <-- nothing
  cluster.sync();
}

/// An index that leaves the other block's variable.
__global__ void leaves_variable(const float* x, float* y, bool correct) {
  __shared__ float row[kThreads];
  const auto cluster = cg::this_cluster();
  row[threadIdx.x] = x[place()];
  cluster.sync();
  const float* const other = cluster.map_shared_rank(row, cluster.block_rank() ^ 1);
  y[place()] = other[threadIdx.x + (correct ? 0 : 1)];  // <-- beyond
  cluster.sync();
}

/// In clusters of two without a word of the launch.
__global__ void __cluster_dims__(2, 1, 1) names_clusters(const float* x, float* y) {  // <-- dims
  __shared__ float row[kThreads];
  const auto cluster = cg::this_cluster();
  row[threadIdx.x] = x[place()];
  cluster.sync();
  y[place()] = cluster.map_shared_rank(row, cluster.block_rank() ^ 1)[threadIdx.x];
  cluster.sync();
}

void launch_as_clusters(Memory memory, bool correct) {
  names_clusters<<<correct ? 4 : 3, kThreads>>>(memory.x, memory.y);
}

}  // namespace

std::vector<Case> cluster_cases() {
  const std::string between = "Put a barrier of the cluster between the two";
  return {
      {"a write to a block that may not have begun", on_cluster(writes_early, kThreads),
       "<early>: thread 0 writes shared memory of block 1 of the cluster, which may not have begun",
       "writes_early, block 0, thread 0",
       "Let all blocks of the cluster wait at a cluster barrier first"},
      {"a read from a block that may have returned", on_cluster(leaves, kThreads),
       "<late>: a thread of block ... of the cluster reads shared memory of block ..., which may "
       "have returned",
       "leaves, block ..., thread ...",
       "A block's shared memory ends with it: let all wait at a cluster barrier behind the last "
       "access"},
      {"a read too soon", on_cluster(reads_too_soon, kThreads),
       "common/cpu_device/tests/hazards/cluster.cu:...: a race: ...",
       "reads_too_soon, block ..., thread ...", between},
      {"a write behind the arrival", on_cluster(writes_after_arrival, kThreads),
       "common/cpu_device/tests/hazards/cluster.cu:...: a race: ...",
       "writes_after_arrival, block ..., thread ...", between},
      {"a cluster barrier that one block does not reach", on_cluster(one_block_returns, kThreads),
       "<alone>: block 1 of the cluster has returned, and others wait for it at this cluster "
       "barrier",
       "one_block_returns, block 0, thread ...",
       "Every thread of every block has to reach each cluster barrier", cudaErrorLaunchFailure},
      {"a second arrival", on_cluster(arrives_twice, kThreads),
       "<twice>: thread ... arrives at the cluster barrier twice",
       "arrives_twice, block 0, thread ...", "Between two arrivals, a thread has to wait",
       cudaErrorLaunchFailure},
      {"a read of what no thread has written", on_cluster(reads_nothing, kThreads),
       "<nothing>: thread ... reads row[...] of another block, which no thread ... has written "
       "before",
       "reads_nothing, block ..., thread ...",
       "Shared memory begins with no value: let a thread write it first"},
      {"an index beyond another block's variable", on_cluster(leaves_variable, kThreads),
       "<beyond>: thread 63 reads 4 bytes, ...", "leaves_variable, block ..., thread 63", "...",
       cudaErrorIllegalAddress},
      {"a grid that is no multiple of __cluster_dims__", launch_as_clusters,
       "<dims>: the kernel's __cluster_dims__ ask for clusters of 2 blocks, and the launch has 3 "
       "blocks",
       "names_clusters, block 0, thread 0", "A GPU refuses such a launch: let the numbers agree",
       cudaErrorInvalidClusterSize},
  };
}

}  // namespace tests
