/// \file
/// The language of kernels.

#include <cuda_fp16.h>

#include <cassert>
#include <cstdio>

#include "tests/ordinary/block_sum.cuh"
#include "tests/ordinary/cases.hpp"

namespace tests {
namespace {

constexpr int kHidden = Rows::kHidden;

/// The last of the block's threads, by a ticket, knows the sum.
__global__ void atomics(const float* x, float* y) {
  __shared__ float sum, rstd;
  __shared__ unsigned tickets, seen;
  __shared__ int most;
  if (threadIdx.x == 0) sum = 0, tickets = 0, seen = 0, most = 0;
  __syncthreads();
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  atomicAdd(&sum, value * value);
  atomicOr(&seen, 1u << threadIdx.x % 32);
  atomicMax_block(&most, static_cast<int>(threadIdx.x));
  __syncthreads();
  __threadfence_block();
  const bool is_last = atomicInc(&tickets, blockDim.x - 1) == blockDim.x - 1;
  const int found = __syncthreads_or(is_last);
  if (threadIdx.x == 0 && found && seen == ~0u && most == kHidden - 1) rstd = rstd_of(sum);
  __syncthreads();
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd;
}

__constant__ float factors[kHidden];
__device__ float epsilon;

__global__ void symbols(const float* x, float* y) {
  __shared__ float partial[8];
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  const float sum = block_sum(value * value, partial);
  y[blockIdx.x * kHidden + threadIdx.x] =
      value * __frsqrt_rn(__fmaf_rn(sum, 1.0f / kHidden, epsilon)) * factors[threadIdx.x];
}

/// Loads parts of vectors through the read-only cache, and aligns bytes as a type is aligned.
__global__ void parts(const float* x, float* y) {
  __shared__ alignas(float4) char bytes[8 * sizeof(float)];
  auto* const partial = reinterpret_cast<float*>(bytes);
  const int i = blockIdx.x * kHidden + threadIdx.x;
  const auto* const vectors = reinterpret_cast<const float4*>(x);
  const float value =
      i % 2 == 0 ? i % 4 == 0 ? __ldg(&vectors[i / 4]).x : __ldg(&vectors[i / 4]).z : __ldcs(x + i);
  const float sum = block_sum(value * value, partial);
  y[i] = value * rstd_of(sum);
}

/// A quarter of the lanes adds up the partial sums, and asks who they are.
__global__ void active_lanes(const float* x, float* y) {
  __shared__ float partial[8], total;
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  block_sum(value * value, partial);
  if (threadIdx.x < 8) {
    const unsigned mask = __activemask();
    float sum = partial[threadIdx.x];
    for (int distance = 4; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(mask, sum, distance);
    }
    if (threadIdx.x == __ffs(mask) - 1) total = sum;
  }
  __syncthreads();
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(total);
}

/// Fixed-point sums, by the warp's own reduction, and lanes that agree.
__global__ void warp_functions(const float* x, float* y) {
  __shared__ unsigned sums[8];
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  const unsigned fixed = __float2uint_rn(value * value * 1048576);
  const unsigned sum = __reduce_add_sync(0xffffffff, fixed);
  const unsigned most = __reduce_max_sync(0xffffffff, fixed);
  int all_agree = 0;
  __match_all_sync(0xffffffff, most, &all_agree);
  const unsigned same = __match_any_sync(0xffffffff, threadIdx.x / 4);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = all_agree && __popc(same) == 4 ? sum : 0;
  const int all = __syncthreads_and(same != 0) + __syncthreads_count(same != 0);
  unsigned total = 0;
  for (const unsigned part : sums) total += part;
  const float mean = __fdividef(__uint2float_rn(total), 1048576.0f * kHidden);
  y[blockIdx.x * kHidden + threadIdx.x] = all == kHidden + 1 ? value * rsqrtf(mean + 1e-5f) : 0;
}

template <class T>
__device__ __noinline__ T square(const T* __restrict__ from, int i) {
  return from[i] * from[i];
}

template <class T, int kThreads = kHidden>
__global__ void __launch_bounds__(kThreads, (kThreads > 512 ? 1 : 2))
    deduced(const T* __restrict x, T* __restrict__ y, std::size_t hidden, const float eps) {
  __shared__ float partial[kThreads / 32];
  const T* const row = x + blockIdx.x * hidden;
  const float sum = block_sum(square(row, threadIdx.x), partial);
  assert(sum >= 0);
  if (sum < 0) printf("block %u has the sum %f\n", blockIdx.x, sum);
  y[blockIdx.x * hidden + threadIdx.x] = row[threadIdx.x] * rsqrtf(sum / hidden + eps);
}

__global__ void overloaded(const float* x, float* y, float eps) {
  __shared__ float partial[8];
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  const float sum = block_sum(value * value, partial);
  y[blockIdx.x * kHidden + threadIdx.x] = value / __fsqrt_rn(__fadd_rn(sum / kHidden, eps));
}
[[maybe_unused]] __global__ void overloaded(const double*, double*, float) {}

__global__ void halves(const float* x, float* y) {
  __shared__ float partial[8];
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  const half scaled = __float2half(value) * half(0.5f);
  half2 pair = __half2half2(scaled);
  pair += __floats2half2_rn(1.0f, 2.0f);
  const half back = (__low2half(pair) - half(1.0f)) * __float2half(2.0f);
  const bool is_near = __habs(back - __float2half(value)) <= half(0.01f) && !__hisnan(back);
  const float sum = block_sum(value * value, partial);
  y[blockIdx.x * kHidden + threadIdx.x] = is_near ? value * rstd_of(sum) : 0;
}

#if defined(__NVCC__) && __CUDACC_VER_MAJOR__ >= 13
using Double4 = double4_16a;  // double4 is deprecated
#else
using Double4 = double4;
#endif

__device__ float2 operator*(float2 a, float2 b) {
  return make_float2(a.x * b.x, a.y * b.y);
}

__global__ void operators(const float* x, float* y) {
  __shared__ float partial[8];
  const float2 value = make_float2(x[blockIdx.x * kHidden + threadIdx.x], 0);
  const float2 square = value * value;
  __builtin_assume(square.x >= 0);
  const float sum = block_sum(square.x + square.y, partial);
  y[blockIdx.x * kHidden + threadIdx.x] = value.x * rstd_of(sum);
}

template <class Vector>
__global__ void vectors(const float* x, float* y) {
  constexpr int kFloats = sizeof(Vector) / sizeof(float);
  __shared__ float partial[8];
  if (threadIdx.x * kFloats < kHidden) {
    const Vector vector = reinterpret_cast<const Vector*>(x + blockIdx.x * kHidden)[threadIdx.x];
    reinterpret_cast<Vector*>(y + blockIdx.x * kHidden)[threadIdx.x] = vector;
  }
  __syncthreads();
  const float value = y[blockIdx.x * kHidden + threadIdx.x];
  const float sum = block_sum(value * value, partial);
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(sum);
}

struct Padded {
  char sign;  // three bytes behind it belong to nobody
  float square;
};

__global__ void padded(const float* x, float* y) {
  __shared__ Padded all[kHidden];
  __shared__ float partial[8];
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  all[threadIdx.x].sign = value < 0 ? -1 : 1;
  all[threadIdx.x].square = value * value;
  __syncthreads();
  const Padded other = all[kHidden - 1 - threadIdx.x];
  const float sum = block_sum(other.square, partial);
  y[blockIdx.x * kHidden + kHidden - 1 - threadIdx.x] =
      other.sign * sqrtf(other.square) * rstd_of(sum);
}

/// A warp that has nothing to do returns before the others' barrier: they do not wait for it.
__global__ void idle_warps(const float* x, float* y) {
  __shared__ float partial[8];
  if (threadIdx.x >= kHidden) return;
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(block_sum(value * value, partial));
}

/// Lanes of a warp meet in two calls of one function, and a block takes one of two branches as a
/// whole, in which it waits.
__global__ void branches(const float* x, float* y) {
  __shared__ float partial[8];
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  const int lane = static_cast<int>(threadIdx.x % 32);
  float* const of_warp = partial + threadIdx.x / 32;
  float sum = value * value;
  for (int distance = 16; distance > 0; distance /= 2) {
    if (lane < 16) {
      sum += __shfl_xor_sync(~0u, sum, distance);
    } else {
      const float other = __shfl_xor_sync(~0u, sum, distance);
      sum = other + sum;
    }
  }
  float total = sum;
  if (lane == 0) {
    *of_warp = sum;
    __syncwarp();
  } else {
    __syncwarp();
    total = *of_warp;
  }
  const int is_same = lane % 2 == 0 ? __all_sync(~0u, total == sum)
                                    : static_cast<int>(__all_sync(~0u, sum == total) != 0);
  __syncthreads();
  const float share = is_same != 0 ? total / 32 : NAN;
  float of_block = 0;
  if (blockIdx.x % 2 == 0) {
    of_block = block_sum(share, partial);
  } else {
    of_block = 2 * block_sum(share / 2, partial);
  }
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(of_block);
}

void launch_symbols(Rows rows) {
  float ones[kHidden];
  for (float& one : ones) one = 1;
  const float eps = Rows::kEps;
  float back = 0;
  void* there = nullptr;
  cudaMemcpyToSymbol(factors, ones, sizeof ones);
  cudaMemcpyToSymbolAsync(epsilon, &eps, sizeof eps, 0, cudaMemcpyHostToDevice);
  cudaMemcpyFromSymbol(&back, epsilon, sizeof back);
  cudaGetSymbolAddress(&there, factors);
  if (back == eps && there != nullptr) symbols<<<Rows::kRows, kHidden>>>(rows.x, rows.y);
}

}  // namespace

std::vector<Ordinary> language_kernels() {
  return {
      {"atomics, and votes with barriers", launch<atomics>},
      {"__constant__ and __device__ variables", launch_symbols},
      {"__ldg of a part, and alignas of a type", launch<parts>},
      {"__activemask", launch<active_lanes>},
      {"__reduce and __match", launch<warp_functions>},
      {"a template whose arguments are deduced, of other types than its parameters",
       [](Rows rows) { deduced<<<Rows::kRows, kHidden>>>(rows.x, rows.y, kHidden, 1e-5); }},
      {"a template whose arguments are deduced, from pointers that are not const",
       [](Rows rows) {
         deduced<<<Rows::kRows, kHidden>>>(
             const_cast<float*>(rows.x), rows.y, std::size_t{kHidden}, 1e-5f);
       }},
      {"a template that is partly named",
       [](Rows rows) {
         tests::deduced<float><<<Rows::kRows, kHidden>>>(rows.x, rows.y, kHidden, Rows::kEps);
       }},
      {"a kernel of two with its name",
       [](Rows rows) { overloaded<<<Rows::kRows, kHidden>>>(rows.x, rows.y, 1e-5f); }},
      {"operators of one's own, and __builtin_assume", launch<operators>},
      {"arithmetic of half", launch<halves>},
      {"double4, which goes in two parts", launch<vectors<Double4>>},
      {"ulonglong2", launch<vectors<ulonglong2>>},
      {"ushort4", launch<vectors<ushort4>>},
      {"char4", launch<vectors<char4>>},
      {"a struct with padding in shared memory", launch<padded>},
      {"one function called in two branches", launch<branches>},
      {"warps that return before a barrier", launch<idle_warps, 2 * kHidden>},
  };
}

}  // namespace tests
