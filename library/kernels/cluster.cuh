#pragma once
/// \file
/// What the blocks of a cluster do together, from Hopper on: barriers that count bytes, and stores
/// to each other's shared memory.

#include <cuda_runtime.h>

#include <cstdint>

#include "library/kernels/row.cuh"

namespace rmsnorm::kernels {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // no plan for older GPUs has these kernels

/// A barrier, whose first phase ends when one thread has arrived and all bytes have.
using Mbarrier = std::uint64_t;

/// An address of shared memory as the instructions take it.
__device__ inline unsigned shared_address(const void* data) {
  return static_cast<unsigned>(__cvta_generic_to_shared(data));
}

/// The address of the same thing in the block of this rank in the cluster.
__device__ inline unsigned address_in_block(unsigned address, int rank) {
  unsigned mapped;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

/// One thread makes the barrier.
__device__ inline void init(Mbarrier* barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(1)
               : "memory");
}

/// It lets others see them: what copies, and the blocks that send.
__device__ inline void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// It arrives: so many bytes are to come.
__device__ inline void expect(Mbarrier* barrier, unsigned bytes) {
  const unsigned address = shared_address(barrier);
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
               : "memory");
}

/// Waits until all have come, in a phase of this parity: the first has 0.
__device__ inline void wait_for_bytes(const Mbarrier* barrier, int parity = 0) {
  unsigned is_over = 0;
  while (is_over == 0) {
    asm volatile(  // asks the barrier
        "{ .reg .pred p;"
        "  mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
        "  selp.b32 %0, 1, 0, p; }"
        : "=r"(is_over)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

/// The same of what other blocks send, which they release to the cluster.
__device__ inline void wait_for_blocks(const Mbarrier* barrier, int parity = 0) {
  unsigned is_over = 0;
  while (is_over == 0) {
    asm volatile(  // asks it, too
        "{ .reg .pred p;"
        "  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
        "  selp.b32 %0, 1, 0, p; }"
        : "=r"(is_over)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

/// One thread begins a copy to shared memory, of a multiple of 16 bytes. `keep`: the L2 cache is to
/// let go of other lines first, as of those that are written.
__device__ inline void copy_bulk(
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
__device__ inline void store_in_block(float* to, float value, Mbarrier* barrier, int rank) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
                   address_in_block(shared_address(to), rank)),
               "f"(value), "r"(address_in_block(shared_address(barrier), rank))
               : "memory");
}

/// The block's number in its cluster, and the cluster's in the grid.
__device__ inline int rank_in_cluster() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline unsigned cluster_in_grid() {
  unsigned number;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
  return number;
}

/// Arrives at the cluster's barrier, which hands nothing on: it says that the block has begun.
__device__ inline void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// Waits until all threads of the cluster have arrived.
__device__ inline void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

/// The numbers of the threads of a cluster, whose blocks have all begun, as one. Every thread gets
/// it. The numbers are 0 or more, if they are not added.
/// \param threads  of each block
/// \param partial  of each warp of the cluster; the barrier counts their bytes
template <class Op>
__device__ float cluster_reduce(
    float value, int threads, int blocks, int rank, float* partial, Mbarrier* barrier, Op op) {
  const int warps = threads / 32;
  const int lane = threadIdx.x % 32;
  value = warp_reduce(value, 32, op);
  if (lane < blocks) {
    store_in_block(&partial[rank * warps + threadIdx.x / 32], value, barrier, lane);
  }
  wait_for_blocks(barrier);  // every warp's number is in this block's partial[]
  return reduce_partial(partial, warps * blocks, op);
}

/// Their sum, where all have called arrive_at_cluster().
__device__ inline float cluster_sum(
    float value, int threads, int blocks, int rank, float* sums, Mbarrier* barrier) {
  wait_for_cluster();  // every block has begun: its barrier is there
  return cluster_reduce(value, threads, blocks, rank, sums, barrier, Sum());
}

#endif

}  // namespace rmsnorm::kernels
