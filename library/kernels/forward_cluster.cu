// Aligned rows that keep several small blocks busy: the blocks of a cluster share them. x waits in
// their shared memory, and the weight, which is there sooner, in their registers.
#include "library/kernels/cluster.cuh"
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// Each thread has kVectors vectors, of which the last may not exist.
template <class T, class W, bool kHasWeight, bool kPlain, int kVectors>
__global__ void __launch_bounds__(kMaxClusterThreads, kVectors == 4 ? 3 : 2) rms_norm_cluster(
    const __grid_constant__ Forward op,          // the tensors
    const __grid_constant__ ForwardPlan plan) {  // how blocks share them
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  // A bulk copy is quicker where its lines of 128 bytes are lines of shared memory, too.
  extern __shared__ __align__(128) uint4 staged[];
  __shared__ float sums[kMaxCluster * kMaxClusterThreads / 32];
  __shared__ Mbarrier x_is_there;
  __shared__ Mbarrier sums_are_there;
  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  constexpr bool kEarly = kParts == 1;           // else registers run short

  const int rank = rank_in_cluster();
  const Task task = task_of<false, kPlain>(op, plan, cluster_in_grid());
  const int begin = rank * plan.part;
  const int mine = min(plan.part, op.hidden / kSize<T> - begin);
  const auto* x = find<const uint4>(task.x, task.place) + begin;
  const uint4* __restrict__ weight = static_cast<const uint4*>(task.weight);
  if (blockIdx.x < plan.prefetching_blocks && threadIdx.x == 0)
    prefetch_row(task, x, weight + begin * kParts, mine, kHasWeight ? mine * kParts : 0);
  wait_for_inputs();
  if (threadIdx.x == 0) {
    init(&sums_are_there);
    init(&x_is_there);
    show_barriers();
    expect(&sums_are_there, plan.cluster * plan.threads / 32 * sizeof(float));
    expect(&x_is_there, mine * sizeof(uint4));
    copy_bulk(staged, x, mine * sizeof(uint4), plan.is_large, &x_is_there);
  }
  const auto exists = [&](int k, int i) { return k < kVectors - 1 || i < mine; };
  uint4 w[kEarly ? kVectors : 1][kParts];
  const auto load_weight = [&](int k, uint4* to) {
    const int i = threadIdx.x + k * plan.threads;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      to[p] = kHasWeight && exists(k, i) ? weight[(begin + i) * kParts + p] : ones<W>();
    }
  };
  if constexpr (kEarly) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) load_weight(k, w[k]);
  }
  __syncthreads();  // both barriers are there
  arrive_at_cluster();
  wait_for_bytes(&x_is_there);
  let_next_begin();

  float sum = 0;
#pragma unroll 2
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * plan.threads;
    if (exists(k, i)) sum += squares<T>(staged[i]);
  }
  sum = cluster_sum(sum, plan.threads, plan.cluster, rank, sums, &sums_are_there);
  const float rstd = rsqrtf(sum * plan.inverse + op.eps);
  if (rank == 0) store_rstd(task, rstd);

  // y may be x, of which each block has read its part.
  uint4* __restrict__ y = find<uint4>(task.y, task.place) + begin;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * plan.threads;
    if (!exists(k, i)) break;
    uint4* const factor = w[kEarly ? k : 0];
    if constexpr (!kEarly) load_weight(k, factor);
    y[i] = scaled<T, W>(staged[i], rstd, factor, op.weight_bias);
  }
#endif
}

template <class T, class W, bool kHasWeight, bool kPlain>
ForwardKernel kernel_for(int vectors) {
  return vectors == 4 ? rms_norm_cluster<T, W, kHasWeight, kPlain, 4>
                      : rms_norm_cluster<T, W, kHasWeight, kPlain, 8>;
}

template <class T, class W, bool kHasWeight>
ForwardKernel kernel_for(const ForwardPlan& plan) {
  return plan.is_plain ? kernel_for<T, W, kHasWeight, true>(plan.vectors)
                       : kernel_for<T, W, kHasWeight, false>(plan.vectors);
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
