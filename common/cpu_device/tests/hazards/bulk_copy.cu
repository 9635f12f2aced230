/// \file
/// Mistakes with what comes into shared memory by itself: bulk copies, and stores into another
/// block, which a barrier counts.

#include <cooperative_groups.h>

#include <cstdint>

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

namespace cg = cooperative_groups;
constexpr int kThreads = 64;
constexpr unsigned kBytes = kThreads * sizeof(float);

__device__ unsigned address_of(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

__device__ void init(unsigned barrier, unsigned threads) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(threads));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ void expect(unsigned barrier, unsigned bytes) {
  asm volatile(  // <-- expects
      "mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
      : "memory");
}

__device__ void copy(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile(  // <-- copies
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

__device__ void wait(unsigned barrier, unsigned parity) {
  unsigned is_over = 0;
  while (is_over == 0) {
    asm volatile(  // <-- waits
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
        : "=r"(is_over)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

/// Waits for what comes from other blocks.
__device__ void receive(unsigned barrier) {
  unsigned is_over = 0;
  while (is_over == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; "
        "selp.b32 %0, 1, 0, p; }"
        : "=r"(is_over)
        : "r"(barrier)
        : "memory");
  }
}

/// How a block copies its row. As it stands, it is right.
struct Way {
  bool inits = true;
  bool syncs = true;  ///< before the others look at the barrier
  bool waits = true;
  unsigned bytes = kBytes;
  unsigned expected = kBytes;
  unsigned parity = 0;  ///< of the phase that is waited for
  int first = 0;        ///< element of x
};

/// One thread copies a row, of which each thread writes one element.
__global__ void copy_row(const float* x, float* y, Way way) {
  __shared__ alignas(16) float row[kThreads];
  __shared__ std::uint64_t barrier;
  const unsigned own = address_of(&barrier);
  if (threadIdx.x == 0) {
    if (way.inits) init(own, 1);
    expect(own, way.expected);
    copy(address_of(row), x + way.first, way.bytes, own);
  }
  if (way.syncs) __syncthreads();
  if (way.waits) wait(own, way.parity);
  y[threadIdx.x] = row[threadIdx.x];
}

/// A launch of one block that copies in a wrong way.
auto copying(Way wrong) {
  return [=](Memory memory, bool correct) {
    copy_row<<<1, kThreads>>>(memory.x, memory.y, correct ? Way() : wrong);
  };
}

/// Sends each thread's number to the other block, which gets it at the same place.
template <class Before, class After>
__device__ void send(const float* x, const Before& before, const After& after) {
  __shared__ float row[kThreads];
  __shared__ std::uint64_t barrier;
  const unsigned own_barrier = address_of(&barrier);
  if (threadIdx.x == 0) {
    init(own_barrier, 1);
    expect(own_barrier, kBytes);
  }
  before();
  unsigned to = 0, counter = 0;
  const unsigned other = cg::this_cluster().block_rank() ^ 1;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(to)
      : "r"(address_of(&row[threadIdx.x])), "r"(other));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counter) : "r"(own_barrier), "r"(other));
  asm volatile(  // <-- sends
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
      "f"(x[blockIdx.x * kThreads + threadIdx.x]), "r"(counter)
      : "memory");
  after(row, own_barrier);
}

/// Sends to a block that may not have begun.
__global__ void sends_early(const float* x, float* y, bool correct) {
  send(
      x,
      [&] {
        if (correct) cg::this_cluster().sync();
      },
      [&](const float* row, unsigned barrier) {
        __syncthreads();
        receive(barrier);
        y[blockIdx.x * kThreads + threadIdx.x] = row[threadIdx.x];
      });
}

/// Returns before all has come that others send.
__global__ void does_not_receive(const float* x, float* y, bool correct) {
  send(
      x, [] { cg::this_cluster().sync(); },
      [&](const float*, unsigned barrier) {
        if (correct) receive(barrier);
        y[blockIdx.x * kThreads + threadIdx.x] = 0;
      });
}

/// Reads what others send, without a look at the barrier.
__global__ void reads_too_soon(const float* x, float* y, bool correct) {
  send(
      x, [] { cg::this_cluster().sync(); },
      [&](const float* row, unsigned barrier) {
        if (correct) receive(barrier);
        y[blockIdx.x * kThreads + threadIdx.x] = row[threadIdx.x];  // <-- too soon
        if (!correct) receive(barrier);
      });
}

/// Waits as for a copy of its own. Where nothing has come from others in a phase, that is right.
__global__ void does_not_reach_the_sender(const float* x, float* y, bool correct) {
  send(
      x, [] { cg::this_cluster().sync(); },
      [&](const float* row, unsigned barrier) {
        if (correct) {
          receive(barrier);
          __syncthreads();  // before the phase after the next
          if (threadIdx.x == 0) expect(barrier, 0);
          wait(barrier, 1);
        } else {
          wait(barrier, 0);
        }
        y[blockIdx.x * kThreads + threadIdx.x] = row[threadIdx.x];
      });
}

}  // namespace

std::vector<Case> bulk_copy_cases() {
  return {
      {"a read of what is still on its way", copying({.waits = false})},
      {"a wait for a phase that is over", copying({.parity = 1})},
      {"a barrier that expects no bytes", copying({.expected = 0})},
      {"a barrier that expects too many bytes", copying({.expected = kBytes + 16}),
       cudaErrorLaunchFailure},
      {"a barrier that expects too few bytes", copying({.expected = kBytes - 16}),
       cudaErrorLaunchFailure},
      {"a barrier without a count", copying({.inits = false}), cudaErrorLaunchFailure},
      {"a look at a barrier that may not be there yet", copying({.syncs = false})},
      {"a bulk copy of a part of a vector", copying({.bytes = kBytes - 4, .expected = kBytes - 4}),
       cudaErrorLaunchFailure},
      {"a bulk copy from any address", copying({.first = 1}), cudaErrorMisalignedAddress},
      {"a store to a block that may not have begun", on_cluster(sends_early, kThreads),
       cudaErrorLaunchFailure},
      {"a store to a block that returns", on_cluster(does_not_receive, kThreads),
       cudaErrorLaunchFailure},
      {"a read of what another block sends", on_cluster(reads_too_soon, kThreads)},
      {"a wait that does not reach the block that sends",
       on_cluster(does_not_reach_the_sender, kThreads)},
  };
}

}  // namespace tests
