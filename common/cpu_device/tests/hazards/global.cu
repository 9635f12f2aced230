/// \file
/// Threads hand values to each other through global memory, in a block or from block to block.

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

__global__ void neighbours(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  y[t] = x[t];  // <-- neighbour written
  if (correct) __syncthreads();
  y[500 + t] = y[(t + 1) % 64];  // <-- neighbour read
}

__global__ void lanes(const float* x, float* y, bool correct) {
  const int lane = threadIdx.x;
  y[lane] = x[lane];  // <-- lane written
  if (correct) __syncwarp();
  y[500 + lane] = y[lane ^ 16];  // <-- lane read
}

/// Each row is right by itself; only the block's second one overwrites what others still read.
__global__ void second_row(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  for (int row = 0; row < 2; ++row) {
    y[t] = x[row * 64 + t];  // <-- row written
    __syncthreads();
    y[100 + row * 64 + t] = y[63 - t];  // <-- row read
    if (correct) __syncthreads();
  }
}

/// Only the last block reaches into the next row.
__global__ void one_too_far(const float* x, float* y, bool correct) {
  const unsigned columns = blockIdx.x == 0 && !correct ? 33 : 32;
  for (unsigned i = threadIdx.x; i < columns; i += blockDim.x) {
    y[blockIdx.x * 32 + i] = x[i] + static_cast<float>(blockIdx.x);  // <-- far
  }
}

__global__ void previous_row(const float* x, float* y, bool correct) {
  const unsigned row = blockIdx.x;
  const float before = row > 0 && !correct ? y[(row - 1) * 32 + threadIdx.x] : 0;  // <-- previous
  y[row * 32 + threadIdx.x] = before + x[threadIdx.x];                             // <-- own row
}

/// The cache of __ldg() does not hear of stores.
__global__ void through_ldg(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  y[t] = x[t];  // <-- stored
  __syncthreads();
  const int other = (t + 1) % 32;
  y[500 + t] = correct ? y[other] : __ldg(&y[other]);  // <-- ldg
}

__device__ float sum_of_parts;

/// A variable of the device is everybody's.
__global__ void in_variable(const float* x, float*, bool correct) {
  if (correct) {
    atomicAdd(&sum_of_parts, x[0]);
  } else {
    sum_of_parts += x[0];  // <-- variable
  }
}

/// All blocks add to one element: right with an atomic.
__global__ void total(const float* x, float* y, bool correct) {
  if (threadIdx.x != 0) return;
  if (correct) {
    atomicAdd(&y[kFlag], x[blockIdx.x]);
  } else {
    y[kFlag] = y[kFlag] + x[blockIdx.x];  // <-- total
  }
}

/// The first block's own atomic operation does not make up for its store.
__global__ void zeroed_by_first(const float*, float* y, bool correct) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0 && !correct) y[kFlag] = 0;  // <-- zeroed
  atomicAdd(&y[kFlag], 1.0f);                     // <-- counted
}

/// Nor does its look at a flag for the one before.
__global__ void looked_plainly(const float*, float* y, bool correct) {
  volatile float* const flag = y + kFlag;
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    if (!correct) y[500] = y[kFlag];  // <-- looked
    y[501] = *flag;
  } else {
    atomicExch(&y[kFlag], 1.0f);  // <-- raised
  }
}

__global__ void total_of_block(const float* x, float* y, bool correct) {
  if (threadIdx.x != 0) return;
  if (correct) {
    atomicAdd(&y[kFlag], x[blockIdx.x]);
  } else {
    atomicAdd_block(&y[kFlag], x[blockIdx.x]);  // <-- total of block
  }
}

/// All threads read what one of the last warp changes, behind a barrier of that warp alone.
__global__ void changed_by_one_warp(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if (t == 0) y[0] = x[0];
  __syncthreads();
  y[500 + t] = y[0];  // <-- read by all
  correct ? __syncthreads() : __syncwarp();
  if (t == 32) y[0] = x[1];  // <-- changed by one
}

__device__ bool arrives_last(float* counter) {
  return static_cast<unsigned>(atomicAdd(counter, 1.0f)) + 1 == gridDim.x;
}

/// The last block to arrive adds up the parts of all: each has to be there when its block arrives.
__global__ void last_block(const float* x, float* y, bool correct) {
  __shared__ bool is_last;
  const unsigned t = threadIdx.x;
  y[blockIdx.x * 32 + t] = x[t];  // <-- part
  if (correct) __threadfence();
  __syncthreads();
  if (t == 0) is_last = arrives_last(&y[kFlag]);
  __syncthreads();
  if (!is_last) return;
  float sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += y[b * 32 + t];  // <-- parts
  y[500 + t] = sum;
}

/// The same with one fence, of the thread that arrives: behind the barrier it is for all.
__global__ void last_block_one_fence(const float* x, float* y, bool correct) {
  __shared__ bool is_last;
  const unsigned t = threadIdx.x;
  y[blockIdx.x * 32 + t] = x[t];  // <-- one part
  if (!correct && t == 0) __threadfence();
  __syncthreads();
  if (correct && t == 0) __threadfence();
  if (t == 0) is_last = arrives_last(&y[kFlag]);
  __syncthreads();
  if (is_last) y[500 + t] = y[t] + y[32 + t];  // <-- one sum
}

/// A fence for the block is none for the device.
__global__ void flag_for_block(const float* x, float* y, bool correct) {
  volatile float* const flag = y + kFlag;
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];  // <-- value
    correct ? __threadfence() : __threadfence_block();
    *flag = 1;
  } else {
    while (*flag != 1) {
    }
    __threadfence();
    y[1] = y[0];  // <-- behind the flag
  }
}

/// A flag in shared memory, from warp to warp.
__global__ void flag_in_block(const float* x, float* y, bool correct) {
  __shared__ float value;
  __shared__ int flag;
  volatile int* const watched = &flag;
  if (threadIdx.x == 0) *watched = 0;
  __syncthreads();
  if (threadIdx.x == 32) {
    value = x[7];  // <-- shared value
    if (correct) __threadfence_block();
    *watched = 1;
  }
  if (threadIdx.x == 0) {
    while (*watched == 0) {
    }
    __threadfence_block();
    y[0] = value;  // <-- behind the shared flag
  }
}

/// All write the same: the order does not matter.
__global__ void all_write_one(const float* x, float* y, bool correct) {
  y[0] = correct ? x[5] : x[threadIdx.x];  // <-- one
}

__global__ void adds_to_nothing(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if (correct) y[t] = 0;
  for (int i = 0; i < 3; ++i) y[t] += x[i];  // <-- nothing
}

__global__ void into_input(const float* x, float* y, bool correct) {
  float* const input = const_cast<float*>(x);
  const int t = threadIdx.x;
  const float value = x[t];
  if (!correct) input[t] = 2 * value;  // <-- input
  y[t] = 2 * value;
  if (!correct) input[t] = value;
}

__global__ void add_up(const float* x, float* sums) {
  atomicAdd(&sums[threadIdx.x], x[threadIdx.x]);  // <-- workspace
}

/// Memory that the launch takes for itself.
void workspace(Memory memory, bool correct) {
  float* sums = nullptr;
  cudaMalloc(&sums, 64 * sizeof(float));
  if (correct) cudaMemsetAsync(sums, 0, 64 * sizeof(float));
  add_up<<<1, 32>>>(memory.x, sums);
  cudaFree(sums);
}

}  // namespace

std::vector<Case> global_cases() {
  return {
      {"a neighbour's element without a barrier", on(neighbours, {1, 64})},
      {"another lane's element without __syncwarp", on(lanes, {1, 32})},
      {"a block's second row overwrites its first", on(second_row, {1, 64})},
      {"two blocks write one element", on(one_too_far, {2, 32})},
      {"a block reads what another writes", on(previous_row, {3, 32})},
      {"what the launch wrote through __ldg", on(through_ldg, {1, 32})},
      {"blocks add to a variable without an atomic", on(in_variable, {2, 1})},
      {"blocks add without an atomic", on_flag(total, {3, 32})},
      {"a block's store is not undone by its own atomic operation",
       on_flag(zeroed_by_first, {2, 32})},
      {"a plain load is not undone by a volatile one", on_flag(looked_plainly, {2, 32})},
      {"blocks add with an atomic for one block", on_flag(total_of_block, {2, 32})},
      {"one warp changes what all have read", on(changed_by_one_warp, {1, 64})},
      {"a part is handed on without a fence", on_flag(last_block, {3, 32})},
      {"a fence before the barrier is for its own thread", on_flag(last_block_one_fence, {2, 32})},
      {"a fence for the block is none for the device", on_flag(flag_for_block, {2, 32})},
      {"a flag in shared memory without a fence", on(flag_in_block, {1, 64})},
      {"threads write different values to one element", on(all_write_one, {2, 64})},
      {"an output is read before it is written", on(adds_to_nothing, {1, 32})},
      {"an input is written, and put back", on(into_input, {1, 32})},
      {"a workspace of the launch's own is read before it is written", workspace},
  };
}

}  // namespace tests
