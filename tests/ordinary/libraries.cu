/// \file
/// Cooperative groups, asynchronous copies and libcu++.

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_pipeline.h>

#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/cmath>
#include <cuda/pipeline>
#include <cuda/std/array>
#include <cuda/std/limits>

#include "tests/ordinary/block_sum.cuh"
#include "tests/ordinary/cases.hpp"

#ifdef __NVCC__  // which warns of each barrier in shared memory: init() is called later
#pragma nv_diag_suppress static_var_with_dynamic_init
#endif

namespace tests {
namespace {

namespace cg = cooperative_groups;

constexpr int kHidden = Rows::kHidden;

__global__ void groups(const float* x, float* y) {
  __shared__ float partial[16];
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<16>(block);
  const float value = x[block.group_index().x * kHidden + block.thread_rank()];
  float sum = value * value;
  for (unsigned distance = tile.size() / 2; distance > 0; distance /= 2) {
    sum += tile.shfl_down(sum, distance);
  }
  if (tile.thread_rank() == 0) partial[tile.meta_group_rank()] = sum;
  block.sync();
  const auto warp = cg::tiled_partition<32>(block);
  sum = warp.thread_rank() < 16 ? partial[warp.thread_rank()] : 0.0f;
  sum = cg::reduce(warp, sum, cg::plus<float>());
  const float least = cg::reduce(warp, sum, cg::less<float>());
  const unsigned rank = warp.thread_rank();
  const auto quartet = cg::labeled_partition(warp, rank / 4);
  const bool is_ranked = cg::inclusive_scan(warp, 1u) == rank + 1 &&
                         cg::exclusive_scan(warp, 1u) == rank && quartet.size() == 4 &&
                         quartet.shfl(rank, 1) == rank / 4 * 4 + 1;
  const bool agree =
      is_ranked && warp.all(least == sum) && warp.ballot(true) == ~0u && !warp.any(sum < 0);
  y[blockIdx.x * kHidden + block.thread_rank()] = agree ? value * rstd_of(sum) : 0;
}

__device__ float sum_of(const cg::thread_group& group, float* scratch, float value) {
  for (unsigned half = group.size() / 2; half > 0; half /= 2) {
    scratch[group.thread_rank()] = value;
    group.sync();
    if (group.thread_rank() < half) value += scratch[group.thread_rank() + half];
    group.sync();
  }
  return value;
}

__global__ void any_group(const float* x, float* y) {
  __shared__ float scratch[kHidden], total;
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  const float sum = sum_of(cg::this_thread_block(), scratch, value * value);
  if (threadIdx.x == 0) total = sum;
  cg::sync(cg::this_thread_block());
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(total);
}

/// Every third lane adds up what it and its neighbours have.
__global__ void coalesced(const float* x, float* y) {
  __shared__ float total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  const float* const row = x + blockIdx.x * kHidden;
  if (threadIdx.x % 3 == 0) {
    float sum = 0;
    for (unsigned i = threadIdx.x; i < threadIdx.x + 3 && i < kHidden; ++i) sum += row[i] * row[i];
    const cg::coalesced_group active = cg::coalesced_threads();
    sum = cg::reduce(active, sum, cg::plus<float>());
    if (active.thread_rank() == 0) atomicAdd(&total, sum);  // of all groups, however they formed
  }
  __syncthreads();
  y[blockIdx.x * kHidden + threadIdx.x] = row[threadIdx.x] * rstd_of(total);
}

__global__ void group_copy(const float* x, float* y) {
  __shared__ alignas(16) float row[kHidden];
  __shared__ float partial[8];
  const auto block = cg::this_thread_block();
  cg::memcpy_async(block, row, x + blockIdx.x * kHidden, sizeof(float) * kHidden);
  cg::wait(block);
  const float value = row[kHidden - 1 - threadIdx.x];
  const float sum = block_sum(value * value, partial);
  y[blockIdx.x * kHidden + kHidden - 1 - threadIdx.x] = value * rstd_of(sum);
}

/// Two copies are on their way; each thread waits for its own, and then for the others.
__global__ void own_copies(const float* x, float* y) {
  __shared__ float4 row[kHidden / 4];
  __shared__ float partial[8];
  const auto* const from = reinterpret_cast<const float4*>(x + blockIdx.x * kHidden);
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned i = half * 32 + threadIdx.x;
    if (threadIdx.x < 32) __pipeline_memcpy_async(&row[i], &from[i], sizeof(float4));
    __pipeline_commit();
  }
  float value = 0;
  for (unsigned half = 0; half < 2; ++half) {
    __pipeline_wait_prior(half == 0 ? 1 : 0);
    __syncthreads();
    if (threadIdx.x / 128 == half) value = reinterpret_cast<const float*>(row)[threadIdx.x];
  }
  const float sum = block_sum(value * value, partial);
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(sum);
}

__global__ void barriers(const float* x, float* y) {
  __shared__ alignas(16) float row[kHidden];
  __shared__ float partial[8];
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  const auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  block.sync();
  cuda::memcpy_async(
      block, row, x + blockIdx.x * kHidden, cuda::aligned_size_t<16>(sizeof row), barrier);
  auto token = barrier.arrive();
  barrier.wait(std::move(token));
  float value = row[kHidden - 1 - threadIdx.x];
  barrier.arrive_and_wait();
  row[threadIdx.x] = 0;
  const float sum = block_sum(value * value, partial);
  y[blockIdx.x * kHidden + kHidden - 1 - threadIdx.x] = value * rstd_of(sum);
}

/// One warp brings the row, the others wait for it at a barrier of all, then at one of their own.
__global__ void producer(const float* x, float* y) {
  __shared__ float row[kHidden];
  __shared__ float partial[8];
  __shared__ cuda::barrier<cuda::thread_scope_block> full, others;
  if (threadIdx.x == 0) init(&full, blockDim.x), init(&others, blockDim.x - 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = threadIdx.x; i < kHidden; i += 32) row[i] = x[blockIdx.x * kHidden + i];
    static_cast<void>(full.arrive());
    return;
  }
  full.arrive_and_wait();
  const unsigned t = threadIdx.x - 32;
  const float value = row[t];
  float sum = value * value;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (t % 32 == 0) partial[t / 32] = sum;
  others.arrive_and_wait();
  sum = 0;
  for (const float part : partial) sum += part;
  y[blockIdx.x * kHidden + t] = value * rstd_of(sum);
}

constexpr unsigned kStages = 2;

/// Four parts of the row go through two stages of shared memory, twice.
__global__ void staged(const float* x, float* y) {
  constexpr unsigned kPart = kHidden / 4;
  __shared__ alignas(16) float parts[kStages][kPart];
  __shared__ float partial[8];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  const auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  const float* const row = x + blockIdx.x * kHidden;
  const auto fetch = [&](unsigned part) {
    pipeline.producer_acquire();
    cuda::memcpy_async(
        block, parts[part % kStages], row + part * kPart, sizeof(float) * kPart, pipeline);
    pipeline.producer_commit();
  };
  fetch(0);
  float value = 0;
  for (unsigned part = 0; part < 4; ++part) {
    if (part < 3) fetch(part + 1);
    pipeline.consumer_wait();
    if (threadIdx.x / kPart == part) value = parts[part % kStages][threadIdx.x % kPart];
    pipeline.consumer_release();
  }
  const float sum = block_sum(value * value, partial);
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(sum);
}

/// Each warp hands its part on, and waits for the others'.
__global__ void atomics(const float* x, float* y) {
  __shared__ cuda::atomic<int, cuda::thread_scope_block> arrived;
  __shared__ float parts[8];
  if (threadIdx.x == 0) arrived.store(0, cuda::memory_order_relaxed);
  __syncthreads();
  const cuda::std::array<float, 1> values = {x[blockIdx.x * kHidden + threadIdx.x]};
  float sum = values[0] * values[0];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (threadIdx.x % 32 == 0) {
    cuda::atomic_ref<float, cuda::thread_scope_block>(parts[threadIdx.x / 32])
        .store(sum, cuda::memory_order_relaxed);
    arrived.fetch_add(1, cuda::memory_order_release);
    while (arrived.load(cuda::memory_order_acquire) < cuda::ceil_div(kHidden, 32)) {
    }
  }
  __syncwarp();
  sum = 0;
  for (const float part : parts) sum += part;
  const float most = cuda::std::numeric_limits<float>::max();
  y[blockIdx.x * kHidden + threadIdx.x] = values[0] * min(most, rstd_of(sum));
}

}  // namespace

std::vector<Ordinary> libraries_kernels() {
  return {
      {"cg::tiled_partition and cg::reduce", launch<groups>},
      {"cg::thread_group", launch<any_group>},
      {"cg::coalesced_threads", launch<coalesced>},
      {"cg::memcpy_async", launch<group_copy>},
      {"__pipeline_memcpy_async", launch<own_copies>},
      {"cuda::barrier and cuda::memcpy_async", launch<barriers>},
      {"cuda::barrier of some threads", launch<producer, kHidden + 32>},
      {"cuda::pipeline", launch<staged>},
      {"cuda::atomic and cuda::std", launch<atomics>},
  };
}

}  // namespace tests
