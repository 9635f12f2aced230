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

/// Reads the other block's row. Wrong: it returns while that may still read; it has not written all
/// elements; an index leaves the variable.
enum class Wrong { returns, unwritten, index };
template <Wrong kWrong>
__global__ void reads(const float* x, float* y, bool correct) {
  __shared__ float row[kThreads];
  const auto cluster = cg::this_cluster();
  const bool writes = kWrong != Wrong::unwritten || correct || threadIdx.x < 32;
  if (writes) row[threadIdx.x] = x[place()];
  cluster.sync();
  const unsigned i = threadIdx.x + (kWrong == Wrong::index && !correct ? 1 : 0);
  y[place()] = cluster.map_shared_rank(row, cluster.block_rank() ^ 1)[i];  // <-- read
  if (kWrong != Wrong::returns || correct) cluster.sync();
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
  return {
      {"a write to a block that may not have begun", on_cluster(writes_early, kThreads)},
      {"a read from a block that may have returned", on_cluster(reads<Wrong::returns>, kThreads)},
      {"a read too soon", on_cluster(reads_too_soon, kThreads)},
      {"a write behind the arrival", on_cluster(writes_after_arrival, kThreads)},
      {"a cluster barrier that one block does not reach", on_cluster(one_block_returns, kThreads),
       cudaErrorLaunchFailure},
      {"a second arrival", on_cluster(arrives_twice, kThreads), cudaErrorLaunchFailure},
      {"a read of what no thread has written", on_cluster(reads<Wrong::unwritten>, kThreads)},
      {"an index beyond another block's variable", on_cluster(reads<Wrong::index>, kThreads),
       cudaErrorIllegalAddress},
      {"a grid that is no multiple of __cluster_dims__", launch_as_clusters,
       cudaErrorInvalidClusterSize},
  };
}

}  // namespace tests
