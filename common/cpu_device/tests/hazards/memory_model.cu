/// \file
/// Flags whose fences and scopes do not say enough: in each kernel, one word is wrong.

#include <cuda/atomic>

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

__device__ unsigned* flags(float* y) {
  return reinterpret_cast<unsigned*>(y + kFlag);
}

__global__ void nothing_behind_poll(const float* x, float* y, bool correct) {
  volatile unsigned* const flag = flags(y);
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- polled value
    __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) {
    }
    if (correct) __threadfence();
    y[1] = y[0];  // <-- behind poll
  }
}

__global__ void nothing_behind_poll_in_block(const float* x, float* y, bool correct) {
  __shared__ float value;
  __shared__ int flag;
  volatile int* const watched = &flag;
  if (threadIdx.x == 0) *watched = 0;
  __syncthreads();
  if (threadIdx.x == 32) {
    value = x[7];  // <-- value of block
    __threadfence_block();
    *watched = 1;
  }
  if (threadIdx.x == 0) {
    while (*watched == 0) {
    }
    if (correct) __threadfence_block();
    y[0] = value;  // <-- read in block
  }
}

__global__ void block_fence_behind_poll(const float* x, float* y, bool correct) {
  volatile unsigned* const flag = flags(y);
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- fenced value
    __threadfence();
    *flag = 1;
  } else {
    while (*flag == 0) {
    }
    correct ? __threadfence() : __threadfence_block();
    y[1] = y[0];  // <-- behind block fence
  }
}

__global__ void relaxed_load(const float* x, float* y, bool correct) {
  const cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(*flags(y));
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- released
    flag.store(1, cuda::memory_order_release);
  } else {
    while (flag.load(correct ? cuda::memory_order_acquire : cuda::memory_order_relaxed) == 0) {
    }
    y[1] = y[0];  // <-- behind relaxed load
  }
}

__global__ void relaxed_store(const float* x, float* y, bool correct) {
  const cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(*flags(y));
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- not released
    flag.store(1, correct ? cuda::memory_order_release : cuda::memory_order_relaxed);
  } else {
    while (flag.load(cuda::memory_order_acquire) == 0) {
    }
    y[1] = y[0];  // <-- behind relaxed store
  }
}

/// The release is for the threads of the block alone.
template <cuda::thread_scope scope>
__device__ void hand_over(const float* x, float* y) {
  const cuda::atomic_ref<unsigned, scope> own(*flags(y));
  const cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(*flags(y));
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];
    own.fetch_add(1, cuda::memory_order_release);  // <-- flag of block
  } else {
    while (flag.load(cuda::memory_order_acquire) == 0) {  // <-- flag of device
    }
    y[1] = y[0];
  }
}

__global__ void flag_of_block(const float* x, float* y, bool correct) {
  if (correct) {
    hand_over<cuda::thread_scope_device>(x, y);
  } else {
    hand_over<cuda::thread_scope_block>(x, y);
  }
}

/// What the one before has done under the lock is not there yet.
__global__ void lock_without_fence(const float* x, float* y, bool correct) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(flags(y), 0u, 1u) != 0) {
  }
  if (correct) __threadfence();
  if (flags(y)[1]++ == 0) y[500] = 0;  // <-- under lock
  y[500] += x[blockIdx.x];
  __threadfence();
  atomicExch(flags(y), 0u);
}

/// The last block to count sets the counter back: it has seen all others' counts.
__global__ void counter_set_back(const float*, float* y, bool correct) {
  if (threadIdx.x != 0) return;
  __threadfence();
  const unsigned before = atomicAdd(flags(y), 1u);             // <-- counted
  if (before == (correct ? gridDim.x - 1 : 0)) *flags(y) = 0;  // <-- set back
}

/// Round by round, one thread of each block waits for the other block, and all read what that has
/// written in this and in earlier rounds.
__global__ void many_rounds(const float* x, float* y, bool correct) {
  volatile unsigned* const flag = flags(y);
  const unsigned t = threadIdx.x;
  for (unsigned round = 0; round < 4; ++round) {
    if (blockIdx.x == 1) {
      if (t == 0) {
        while (flag[1] < round) {
        }
      }
      y[round * 32 + t] = x[t];  // <-- part of round
      __threadfence();
      __syncthreads();
      if (t == 0) flag[0] = round + 1;
    } else {
      if (t == 0) {
        while (flag[0] < round + 1) {
        }
        if (correct || round < 2) __threadfence();
      }
      __syncthreads();
      y[500 + t] = y[round * 32 + t] + y[t];  // <-- sum of round
      if (t == 0) flag[1] = round + 1;
    }
  }
}

/// A comparison that fails changes nothing, and so it releases nothing.
__global__ void exchange_that_fails(const float* x, float* y, bool correct) {
  const cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(*flags(y));
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- exchanged
    unsigned expected = correct ? 0 : 7;
    flag.compare_exchange_strong(expected, 1, cuda::memory_order_release);
    flag.fetch_add(1, cuda::memory_order_relaxed);
  } else {
    while (flag.load(cuda::memory_order_acquire) == 0) {
    }
    y[1] = y[0];  // <-- behind exchange
  }
}

/// What a thread has released stays so when it changes the flag once more.
__global__ void store_behind_release(const float* x, float* y, bool correct) {
  const cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(*flags(y));
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- stored twice
    flag.store(1, correct ? cuda::memory_order_release : cuda::memory_order_relaxed);
    flag.store(2, cuda::memory_order_relaxed);
  } else {
    while (flag.load(cuda::memory_order_acquire) < 2) {
    }
    y[1] = y[0];  // <-- behind second store
  }
}

/// From block to block, and from there to the next.
__global__ void chain_of_blocks(const float* x, float* y, bool correct) {
  volatile unsigned* const flag = flags(y);
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- begin of chain
    __threadfence();
    flag[0] = 1;
  } else if (blockIdx.x == 1) {
    while (flag[0] == 0) {
    }
    if (correct) __threadfence();
    flag[1] = 1;
  } else {
    while (flag[1] == 0) {
    }
    __threadfence();
    y[1] = y[0];  // <-- end of chain
  }
}

__device__ unsigned poll(const unsigned* flag, bool correct) {
  unsigned value = 0;
  if (correct) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  } else {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  }
  return value;
}

__global__ void ptx_load(const float* x, float* y, bool correct) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- by st
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flags(y)), "r"(1) : "memory");
  } else {
    while (poll(flags(y), correct) == 0) {
    }
    y[1] = y[0];  // <-- behind ld
  }
}

/// A loop of PTX, with a label.
__device__ void wait_for(const unsigned* flag) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      ".reg .u32 value;\n"
      "WAIT_%=:\n"
      "ld.acquire.gpu.global.u32 value, [%0];\n"
      "setp.eq.u32 p, value, 0;\n"
      "@p bra WAIT_%=;\n"
      "}" ::"l"(flag)
      : "memory");
}

__global__ void ptx_red(const float* x, float* y, bool correct) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- by red
    if (correct) {
      asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(flags(y)), "r"(1) : "memory");
    } else {
      asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(flags(y)), "r"(1) : "memory");
    }
  } else {
    wait_for(flags(y));
    y[1] = y[0];  // <-- behind red
  }
}

/// Blocks 0 and 2 are of two clusters, blocks 0 and 1 of one.
__global__ void fence_of_cluster(const float* x, float* y, bool correct) {
  volatile unsigned* const flag = flags(y);
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- in cluster
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    *flag = 1;
  } else if (blockIdx.x == (correct ? 1 : 2)) {
    while (*flag == 0) {
    }
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    y[1] = y[0];  // <-- of other cluster
  }
}

std::function<void(Memory, bool)> in_clusters(Kernel kernel) {
  return [=](Memory memory, bool correct) {
    cudaMemsetAsync(memory.y + kFlag, 0, 2 * sizeof(float));
    on_cluster(kernel, 32)(memory, correct);
  };
}

}  // namespace

std::vector<Case> memory_model_cases() {
  return {
      {"a flag is polled, and no fence stands behind", on_flag(nothing_behind_poll, {2, 32})},
      {"a flag in shared memory is polled, and no fence stands behind",
       on(nothing_behind_poll_in_block, {1, 64})},
      {"a fence for the block stands behind the flag", on_flag(block_fence_behind_poll, {2, 32})},
      {"an atomic load of a flag is relaxed", on_flag(relaxed_load, {2, 32})},
      {"an atomic store of a flag is relaxed", on_flag(relaxed_store, {2, 32})},
      {"a flag is atomic for one block", on_flag(flag_of_block, {2, 32})},
      {"a lock is taken without a fence", on_flag(lock_without_fence, {3, 32})},
      {"a counter is set back while others still count", on_flag(counter_set_back, {3, 32})},
      {"a fence is missing in the third of many rounds", on_flag(many_rounds, {2, 32})},
      {"an exchange that fails is taken for a release", on_flag(exchange_that_fails, {2, 32})},
      {"two stores of a flag, none of which releases", on_flag(store_behind_release, {2, 32})},
      {"the middle of a chain of flags has no fence", on_flag(chain_of_blocks, {3, 32})},
      {"ld of a flag is relaxed", on_flag(ptx_load, {2, 32})},
      {"red to a flag is relaxed", on_flag(ptx_red, {2, 32})},
      {"a fence for the cluster, between two of them", in_clusters(fence_of_cluster)},
  };
}

}  // namespace tests
