// The sum over ranks by flags, in fp32: each rank shows its part, one barrier between ranks, and
// all add up. Edits of it are the ways in which that goes wrong.
#include <cstdint>
#include <cuda/atomic>

#include "tests/operations/all_reduce_residual_add/norm_in_fp32.cuh"

namespace {

/// A rank's flags, and behind them the parts that it shows, of two layers.
__device__ unsigned* flags_of(const AllReduce& p, int rank) {
  return static_cast<unsigned*>(p.rank[rank].workspace);
}
__device__ float* part_of(const AllReduce& p, int rank, int row, int layer) {
  auto* parts = static_cast<float*>(p.rank[rank].workspace) + kMostRanks * gridDim.x;
  return parts + (std::int64_t{layer % 2} * p.rows + row) * p.hidden;
}

/// Block b of each rank waits for block b of all.
__device__ void meet(const AllReduce& p, int rank, unsigned epoch) {
  using Flag = cuda::atomic_ref<unsigned, cuda::thread_scope_system>;
  __syncthreads();
  if (threadIdx.x < p.ranks) {
    const int peer = threadIdx.x;
    const Flag theirs(flags_of(p, peer)[blockIdx.x * kMostRanks + rank]);
    const Flag mine(flags_of(p, rank)[blockIdx.x * kMostRanks + peer]);
    theirs.store(epoch, cuda::memory_order_release);
    while (static_cast<int>(mine.load(cuda::memory_order_acquire) - epoch) < 0) {
    }
  }
  __syncthreads();
}

__global__ void one_shot(AllReduce p) {
  const int rank = blockIdx.y;
  for (int layer = 0; layer < p.layers; ++layer) {
    for (int row = blockIdx.x; row < p.rows; row += gridDim.x) {
      const float* x = x_of(p, rank, row, layer);
      float* part = part_of(p, rank, row, layer);
      for (int col = threadIdx.x; col < p.hidden; col += kThreads) part[col] = x[col];
    }
    meet(p, rank, layer + 1);
    for (int row = blockIdx.x; row < p.rows; row += gridDim.x) {
      norm(p, rank, row, layer, [&](int col) {
        float sum = 0;
        for (int r = 0; r < p.ranks; ++r) sum += part_of(p, r, row, layer)[col];
        return sum;
      });
    }
  }
}

constexpr std::size_t kFlagBytes = sizeof(unsigned) * kMostRanks * kBlocks;

cudaError_t launch(const AllReduce& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  for (int rank = 0; rank < p.ranks; ++rank) {
    const cudaError_t error = cudaMemsetAsync(p.rank[rank].workspace, 0, kFlagBytes, stream);
    if (error != cudaSuccess) return error;
  }
  AllReduce problem = p;
  void* arguments[] = {&problem};
  return cudaLaunchCooperativeKernel(
      one_shot, dim3(kBlocks, p.ranks), kThreads, arguments, 0, stream);
}

/// Of each rank: flags, and its parts of two layers.
std::size_t workspace_bytes(const AllReduce& p) {
  return kFlagBytes +
         2 * sizeof(float) * static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.hidden);
}

/// A line reads x, its own part, the weight, and the residual twice; it writes its part, y and
/// the residual. It reads the parts of all others.
rmsnorm::Traffic traffic(const AllReduce& p) {
  const double row = sizeof(float) * static_cast<double>(p.hidden);
  const double lines = static_cast<double>(p.ranks) * p.layers;
  return {
      .read = lines * (p.weight == nullptr ? 4 : 5) * row,
      .written = lines * 3 * row,
      .from_peers = lines * (p.ranks - 1) * row};
}

const rmsnorm::Registration<AllReduce> lesson{{
    .slug = "all_reduce_residual_add",
    .title = "Sum over ranks by flags",
    .idea = "One barrier between ranks",
    .regime = "decode",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
    .workspace_bytes = workspace_bytes,
}};

}  // namespace
