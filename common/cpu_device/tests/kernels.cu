#include <cub/cub.cuh>
#include <cuda/annotated_ptr>
#include <cuda/atomic>

#include "common/cpu_device/tests/kernels.hpp"

namespace tests {

__global__ void fill(float* y) {
  y[blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x] = 1;
}

__global__ void set(float* y, float value) {
  y[0] = value;
}

__global__ void increment(float* y) {
  y[0] = y[0] + 1;
}

__global__ void large_static(float* y) {
  __shared__ float memory[10000];
  memory[threadIdx.x] = 1;
  y[threadIdx.x] = memory[threadIdx.x];
}

__global__ void too_large_static(float* y) {
  __shared__ float small[10];
  __shared__ float memory[13000];
  small[threadIdx.x % 10] = 1;
  memory[threadIdx.x] = 1;
  y[threadIdx.x] = memory[threadIdx.x] + small[0];
}

namespace {

template <class Scalar, int kElements>
__device__ Scalar with_scratch(Scalar value) {
  __shared__ Scalar scratch[kElements];
  scratch[threadIdx.x] = value;
  return scratch[threadIdx.x] + 1;
}

}  // namespace

__global__ void has_scratch(float* y) {
  __shared__ int turns[7];
  turns[0] = 1;
  y[threadIdx.x] = static_cast<float>(with_scratch<double, 50>(1)) + turns[0];
}

extern __shared__ float at_file_scope[];

__global__ void file_scope(float* y) {
  at_file_scope[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  y[threadIdx.x] = at_file_scope[threadIdx.x];
}

template <class T>
__global__ void load_global(const float* x, Addresses at, float* y) {
  const T value = *reinterpret_cast<const T*>(x + at[threadIdx.x]);
  y[threadIdx.x] = reinterpret_cast<const float&>(value);
}
template __global__ void load_global<float>(const float*, Addresses, float*);
template __global__ void load_global<float2>(const float*, Addresses, float*);
template __global__ void load_global<float4>(const float*, Addresses, float*);

template <class T>
__global__ void load_shared(int floats, Addresses at, float* y) {
  extern __shared__ float staged[];
  for (int i = threadIdx.x; i < floats; i += blockDim.x) staged[i] = static_cast<float>(i);
  __syncthreads();
  const T value = *reinterpret_cast<const T*>(staged + at[threadIdx.x]);
  y[threadIdx.x] = reinterpret_cast<const float&>(value);
}
template __global__ void load_shared<float>(int, Addresses, float*);
template __global__ void load_shared<float2>(int, Addresses, float*);
template __global__ void load_shared<float4>(int, Addresses, float*);

template <class T>
__global__ void store_shared(Addresses at) {
  extern __shared__ float staged[];
  *reinterpret_cast<T*>(staged + at[threadIdx.x]) = T();
}
template __global__ void store_shared<float>(Addresses);
template __global__ void store_shared<float4>(Addresses);

__global__ void policies(const float* x, float* y) {
  using cuda::access_property;
  const float* const last =
      cuda::associate_access_property(x + threadIdx.x, access_property::persisting());
  const float* const first = cuda::associate_access_property(last, access_property::streaming());
  const float* const normal = cuda::associate_access_property(first, access_property::normal());
  const float* const half =
      cuda::associate_access_property(normal, {access_property::persisting(), 0.5f});
  float sum = *last;
  sum += first[32];
  sum += normal[64];
  sum += half[96];
  cuda::associate_access_property(y, access_property::persisting())[threadIdx.x] = sum;
}

__global__ void past_the_end(const float* x, float* y) {
  y[0] = cuda::associate_access_property(x, cuda::access_property::persisting())[1];
}

__global__ void triggers(float* y, int early, int late) {
  const int t = threadIdx.x;
  if (t < early) cudaTriggerProgrammaticLaunchCompletion();
  y[t] = 1;
  if (t >= 96 - late) cudaTriggerProgrammaticLaunchCompletion();
}

__global__ void lanes_behind_loop(float* y) {
  const int t = threadIdx.x;
  if (t >= 24) return;
  for (int i = 0; i < t / 8; ++i) y[t + 32] += 1;
  y[t] = __activemask();
  __syncwarp(0xffffff);
  const unsigned together = __activemask();
  if (t == 0) y[24] = together;
}

__global__ void half_warp_reduce(const float* x, float* y) {
  using Reduce = cub::WarpReduce<float, 16>;
  __shared__ Reduce::TempStorage storage;
  if (threadIdx.x >= 16) return;
  const float sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) y[0] = sum;
}

__global__ void hand_over(float* y, bool correct) {
  volatile float* const value = y;
  if (blockIdx.x == 0) {
    value[0] = 1;
    if (correct) __threadfence();
    value[1] = 1;
  } else {
    while (value[1] == 0) {
    }
    if (correct) __threadfence();
    y[2] = value[0];
  }
}

__global__ void raise_and_look(float* y, bool of_system) {
  volatile float* const flags = y;
  const unsigned own = blockIdx.x + blockIdx.y;
  flags[own] = 1;
  of_system ? __threadfence_system() : __threadfence();
  if (flags[1 - own] == 0) atomicAdd(&y[2], 1.0f);
}

__global__ void hand_over_to_peer(const float* of_0, float* of_1) {
  using Flag = cuda::atomic_ref<float, cuda::thread_scope_system>;
  if (blockIdx.y == 0) {
    of_1[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) Flag(of_1[32]).store(1, cuda::memory_order_release);
  } else {
    Flag flag(of_1[32]);
    if (threadIdx.x == 0) {
      while (flag.load(cuda::memory_order_acquire) == 0) {
      }
    }
    __syncthreads();
    of_1[threadIdx.x] += of_0[threadIdx.x];
  }
}

__global__ void last_block_sums(float* y, bool correct) {
  __shared__ bool is_last;
  const unsigned number = blockIdx.x * 32 + threadIdx.x;
  y[number] = static_cast<float>(number);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(reinterpret_cast<unsigned*>(y + 98), 1u) == 1;
    if (correct) __threadfence();
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) y[99] = y[31] + y[32];
}

__shared__ float mirror[32];

__global__ void shared_outside(float* y) {
  mirror[31 - threadIdx.x] = static_cast<float>(blockIdx.x * 32 + threadIdx.x);
  __syncthreads();
  y[blockIdx.x * 32 + threadIdx.x] = mirror[threadIdx.x];
}

}  // namespace tests
