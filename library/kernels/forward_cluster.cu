// Aligned rows that are longer than a small block's registers: the blocks of a cluster share them,
// and tell each other their partial sums through their shared memory.
#include <cooperative_groups.h>

#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

namespace cg = cooperative_groups;

/// From here on, nvcc takes a vector for a new one: it would keep 64 registers of widened elements
/// for later beside the 32 of the vectors, and spill.
__device__ void forget_elements([[maybe_unused]] uint4& v) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w));
#endif
}

/// Arrives at the cluster's barrier, before anything that others could want to see.
__device__ void arrive_first() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

/// Sum over the threads of a cluster, which all have called arrive_first(). Every one gets it.
__device__ float cluster_sum(float value) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  __shared__ float partial[kMaxCluster * kClusterThreads / 32];
  const auto cluster = cg::this_cluster();
  const int warps = blockDim.x / 32;
  const int lane = threadIdx.x % 32;
  value = group_sum(value, 32);
  cluster.barrier_wait();  // every block has begun: its shared memory is there
  if (lane < cluster.num_blocks()) {
    const int place = cluster.block_rank() * warps + threadIdx.x / 32;
    *cluster.map_shared_rank(&partial[place], lane) = value;
  }
  cluster.sync();  // every warp's sum is in every block's partial[]
  value = 0;
  for (int i = lane; i < warps * cluster.num_blocks(); i += 32) value += partial[i];
  return group_sum(value, 32);
#else
  return value;  // GPUs before Hopper have no clusters: no plan for them has this kernel
#endif
}

/// Each thread has kClusterVectors vectors, of which the last may not exist.
template <class T, class W, bool kHasWeight, bool kIsCluster>
__global__ void __launch_bounds__(kClusterThreads, 2) rms_norm_cluster(
    const __grid_constant__ Forward op,          // the tensors
    const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  if constexpr (kIsCluster) arrive_first();
  const int blocks = kIsCluster ? plan.cluster : 1;
  const int rank = blockIdx.x % blocks;
  const Task task = task_of<false, false>(op, plan, blockIdx.x / blocks);
  wait_for_inputs();
  const auto* row = find<const uint4>(task.x, task.place);
  const auto* x = cuda::associate_access_property(row, plan.policy);
  const int vectors = op.hidden / kSize<T>;
  const int part = (vectors - 1) / blocks + 1;  // of a block
  const int end = min(vectors, (rank + 1) * part);
  const int begin = rank * part + threadIdx.x;
  const auto exists = [&](int k, int i) { return k < kClusterVectors - 1 || i < end; };
  uint4 v[kClusterVectors];
#pragma unroll
  for (int k = 0; k < kClusterVectors; ++k) {
    const int i = begin + k * blockDim.x;
    v[k] = exists(k, i) ? x[i] : make_uint4(0, 0, 0, 0);
  }
  let_next_begin();
  float sum = 0;
#pragma unroll
  for (const uint4& u : v) sum += squares<T>(u);
  if constexpr (kIsCluster) {
    sum = cluster_sum(sum);
  } else {
    __shared__ float partial[32];
    sum = row_sum<0>(sum, partial);
  }
  const float rstd = rsqrtf(sum * plan.inverse + op.eps);
  if (rank == 0) store_rstd(task, rstd);
#pragma unroll
  for (uint4& u : v) forget_elements(u);

  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  const uint4* __restrict__ weight = static_cast<const uint4*>(task.weight);
  // y may be x, of which each thread has read what it overwrites.
  uint4* __restrict__ y = find<uint4>(task.y, task.place);
#pragma unroll
  for (int k = 0; k < kClusterVectors; ++k) {
    const int i = begin + k * blockDim.x;
    if (!exists(k, i)) break;
    uint4 w[kParts];
#pragma unroll
    for (int p = 0; p < kParts; ++p) w[p] = kHasWeight ? weight[i * kParts + p] : ones<W>();
    y[i] = scaled<T, W>(v[k], rstd, w, op.weight_bias);
  }
}

template <class T, class W, bool kHasWeight>
ForwardKernel kernel_for(const ForwardPlan& plan) {
  return plan.cluster > 1 ? rms_norm_cluster<T, W, kHasWeight, true>
                          : rms_norm_cluster<T, W, kHasWeight, false>;
}

}  // namespace

ForwardKernel cluster_kernel(const Forward& op, const ForwardPlan& plan) {
  const bool has_weight = op.tensors[0].weight != nullptr;
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) -> ForwardKernel {
    using T = decltype(x);
    using W = decltype(weight);
    return has_weight ? kernel_for<T, W, true>(plan) : kernel_for<T, T, false>(plan);
  });
}

}  // namespace rmsnorm::kernels
