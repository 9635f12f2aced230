#pragma once
/// \file
/// What all kernels do with a row: wait for it, find it, add up what its threads have of it.

#include <cuda_runtime.h>

#include <cstdint>

#include "library/kernels/rows.hpp"

namespace rmsnorm::kernels {

/// Waits until what the kernels before this one have written is there. In a launch that may overlap
/// the end of another (launch.hpp), nothing must be read before.
__device__ inline void wait_for_inputs() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets the next kernel set up its grid, if its launch may overlap: it waits for this one's end.
__device__ inline void let_next_begin() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Prefetch, by one thread, of bytes that will be read after the wait: a multiple of 16 of them, at
/// an address that is one. They come into the L2 cache, where the kernel before may still write.
__device__ inline void prefetch(
    [[maybe_unused]] const void* from, [[maybe_unused]] unsigned bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

/// Prefetch, by one thread of a block, of most of a later block's row, so many rows behind its own,
/// if there are so many `left`: that block's loads are then short.
__device__ inline void prefetch_ahead(
    const void* row, std::int64_t stride, int distance, std::int64_t left, std::int64_t bytes) {
  if (distance == 0 || distance >= left) return;
  const auto address = reinterpret_cast<std::uintptr_t>(row) + distance * stride;
  const auto begin = address / 16 * 16, end = (address + bytes) / 16 * 16;
  prefetch(reinterpret_cast<const void*>(begin), static_cast<unsigned>(end - begin));
}

/// A row's place in a tensor (outer, inner, hidden).
struct Place {
  std::int64_t outer, inner;
};

/// The place of row number `row` in tensors of so many rows, `inner` in the inner dimension. At
/// most one division, in 32 bits if they are enough.
/// \tparam kIsShort  whether a block may have several rows: otherwise there are fewer than 2^31
template <bool kIsShort>
__device__ Place place_of(std::int64_t row, std::int64_t rows, std::int64_t inner) {
  if (inner >= rows) return {0, row};
  const bool is_small = !kIsShort || rows >> 32 == 0;
  const std::int64_t outer =
      is_small ? static_cast<unsigned>(row) / static_cast<unsigned>(inner) : row / inner;
  return {outer, row - outer * inner};
}

/// The row at a place.
template <class T>
__device__ T* find(const Rows& rows, const Place& place) {
  return reinterpret_cast<T*>(
      static_cast<char*>(rows.data) + place.outer * rows.outer_stride +
      place.inner * rows.inner_stride);
}

/// Two numbers as one: their sum.
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

/// Likewise: the larger one, which is not NaN unless both are.
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// The numbers of a group of neighbouring lanes as one. Every lane gets its group's.
template <class Op>
__device__ float warp_reduce(float value, int lanes, Op op) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  return value;
}

/// The numbers of the threads of a row as one, which all of them get: kRowThreads or, if that is 0,
/// a block, of `threads`. They are 0 or more, if they are not added. If the threads are more than
/// 32, `partial` are 32 floats of shared memory; if they are more than 64, the block has one row.
template <int kRowThreads, class Op>
__device__ float block_reduce(float value, float* partial, int threads, Op op) {
  if constexpr (kRowThreads > 0 && kRowThreads <= 32) {
    return warp_reduce(value, kRowThreads, op);
  } else {
    value = warp_reduce(value, 32, op);
    const int lane = threadIdx.x % 32;
    const bool has_block = kRowThreads > 64;
    const int warp = (has_block ? threadIdx.x : threadIdx.y * threads + threadIdx.x) / 32;
    if (lane == 0) partial[warp] = value;
    __syncthreads();  // every warp's number is in partial[]
    if constexpr (kRowThreads == 64) return op(partial[warp / 2 * 2], partial[warp / 2 * 2 + 1]);
    const int warps = kRowThreads > 0 ? kRowThreads / 32 : threads / 32;
    return warp_reduce(lane < warps ? partial[lane] : 0, 32, op);
  }
}

/// The numbers of a group of neighbouring lanes as one, for each of a thread's kCount numbers, a
/// power of 2. Of a group's lanes, each kCount-th part gets one: the first that of number[0]. Lanes
/// swap what is not theirs: fewer shuffles than kCount warp_reduces, which combine in this order.
template <int kCount, class Op>
__device__ float warp_reduce_each(float (&number)[kCount], int lanes, Op op) {
  int distance = lanes / 2;
#pragma unroll
  for (int left = kCount / 2; left > 0; left /= 2, distance /= 2) {
    const bool has_second = (threadIdx.x & distance) != 0;
#pragma unroll
    for (int i = 0; i < left; ++i) {
      const float kept = has_second ? number[left + i] : number[i];
      const float given = has_second ? number[i] : number[left + i];
      number[i] = op(kept, __shfl_xor_sync(0xffffffff, given, distance));
    }
  }
  return warp_reduce(number[0], 2 * distance, op);
}

/// The largest of a warp's numbers, which are 0 or more.
__device__ inline float largest_of_warp(float value) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  // The bits of such numbers have their order.
  return __uint_as_float(__reduce_max_sync(0xffffffff, __float_as_uint(value)));
#else
  return warp_reduce(value, 32, Larger());
#endif
}

/// The sum over groups of neighbouring lanes.
__device__ inline float group_sum(float value, int lanes) {
  return warp_reduce(value, lanes, Sum());
}

/// The sum over the threads of a row.
template <int kRowThreads>
__device__ float row_sum(float value, float* partial, int threads = blockDim.x) {
  return block_reduce<kRowThreads>(value, partial, threads, Sum());
}

/// The same where a row has a warp, or a block of more threads.
__device__ inline float warp_or_block_sum(float value, float* partial) {
  return blockDim.x == 32 ? group_sum(value, 32) : row_sum<0>(value, partial);
}

/// What so many warps have left in shared memory as one number. Every lane of a warp gets it.
template <class Op>
__device__ float reduce_partial(const float* partial, int warps, Op op) {
  float all = 0;
  for (int i = threadIdx.x % 32; i < warps; i += 32) all = op(all, partial[i]);
  return warp_reduce(all, 32, op);
}

/// The sum over the threads of another launch, in which `blocks` of so many warps share a row. The
/// warps of this row do the work of theirs one after the other, and add in their order.
/// \param sums  a float of shared memory for each of their warps
/// \param of_thread  what thread t of the block of a rank has: of_thread(rank, t)
template <class OfThread>
__device__ float sum_in_order_of(int blocks, int warps, float* sums, OfThread of_thread) {
  const int lane = threadIdx.x % 32;
  for (int warp = threadIdx.x / 32; warp < blocks * warps; warp += blockDim.x / 32) {
    const float sum = group_sum(of_thread(warp / warps, warp % warps * 32 + lane), 32);
    if (lane == 0) sums[warp] = sum;
  }
  let_next_begin();
  __syncthreads();  // every warp's sum is in sums[]
  return reduce_partial(sums, blocks * warps, Sum());
}

}  // namespace rmsnorm::kernels
