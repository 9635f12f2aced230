// Aligned rows that keep several small blocks busy: the blocks of a cluster share them. x waits in
// their shared memory, and the weight, which is there sooner, in their registers.
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // no plan for older GPUs has these kernels

/// A barrier, whose first phase ends when one thread has arrived and all bytes have.
using Mbarrier = std::uint64_t;

/// An address of shared memory as the instructions take it.
__device__ unsigned shared_address(const void* data) {
  return static_cast<unsigned>(__cvta_generic_to_shared(data));
}

/// The address of the same thing in the block of this rank in the cluster.
__device__ unsigned address_in_block(unsigned address, int rank) {
  unsigned mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

/// One thread makes the barrier.
__device__ void init(Mbarrier* barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(1)
               : "memory");
}

/// It lets others see them: what copies, and the blocks that send.
__device__ void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// It arrives: so many bytes are to come.
__device__ void expect(Mbarrier* barrier, unsigned bytes) {
  const unsigned address = shared_address(barrier);
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
               : "memory");
}

/// Waits until all have come.
__device__ void wait_for_bytes(const Mbarrier* barrier) {
  unsigned is_over = 0;
  while (is_over == 0) {
    asm volatile(  // asks the barrier
        "{ .reg .pred p;"
        "  mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
        "  selp.b32 %0, 1, 0, p; }"
        : "=r"(is_over)
        : "r"(shared_address(barrier)), "r"(0)
        : "memory");
  }
}

/// One thread begins a copy to shared memory, of a multiple of 16 bytes. `keep`: the L2 cache is to
/// let go of other lines first, as of those that are written.
__device__ void copy_bulk(
    void* to, const void* from, unsigned bytes, bool keep, Mbarrier* barrier) {
  const unsigned address = shared_address(to), counter = shared_address(barrier);
  if (keep) {
    std::uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(address),
        "l"(from), "r"(bytes), "r"(counter), "l"(policy)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(address),
        "l"(from), "r"(bytes), "r"(counter)
        : "memory");
  }
}

/// Stores a number in the block of this rank: to the address, and its 4 bytes to the barrier's
/// count, that these have there.
__device__ void store_in_block(float* to, float value, Mbarrier* barrier, int rank) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                   address_in_block(shared_address(to), rank)),
               "f"(value), "r"(address_in_block(shared_address(barrier), rank))
               : "memory");
}

/// The block's number in its cluster, and the cluster's in the grid.
__device__ int rank_in_cluster() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ unsigned cluster_in_grid() {
  unsigned number;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
  return number;
}

/// Arrives at the cluster's barrier, which hands nothing on: it says that the block has begun.
__device__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// Waits until all threads of the cluster have arrived.
__device__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

/// Sum over the threads of a cluster, which all have called arrive_at_cluster(). Every one gets it.
/// \param threads  of each block
/// \param sums  of each warp of the cluster; the barrier counts their bytes
__device__ float cluster_sum(
    float value, int threads, int blocks, int rank, float* sums, Mbarrier* barrier) {
  const int warps = threads / 32;
  const int lane = threadIdx.x % 32;
  value = group_sum(value, 32);
  wait_for_cluster();  // every block has begun: its barrier is there
  if (lane < blocks) store_in_block(&sums[rank * warps + threadIdx.x / 32], value, barrier, lane);
  wait_for_bytes(barrier);  // every warp's sum is in this block's sums[]
  value = 0;
  for (int i = lane; i < warps * blocks; i += 32) value += sums[i];
  return group_sum(value, 32);
}

#endif

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
  if (blockIdx.x < plan.asking && threadIdx.x == 0)
    ask_for(task, x, weight + begin * kParts, mine, kHasWeight ? mine * kParts : 0);
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
