#pragma once
/// \file
/// A row in vectors of 16 bytes, wherever it lies, and the sum over its threads.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "lessons/11_any_tensor/any_tensor.hpp"

namespace rmsnorm::any_tensor {

/// Where a row begins. One division, in 32 bits if they are enough; none if outer is 1.
template <class T>
__device__ T* find(const Rows& rows, std::int64_t row, const Tensor& tensor) {
  std::int64_t outer = 0;
  if (tensor.inner < tensor.rows) {
    const bool fits = tensor.rows >> 32 == 0;
    outer = fits ? unsigned(row) / unsigned(tensor.inner) : row / tensor.inner;
  }
  const std::int64_t inner = row - outer * tensor.inner;
  return reinterpret_cast<T*>(
      static_cast<char*>(rows.data) + outer * rows.outer_stride + inner * rows.inner_stride);
}

/// How many elements a vector has.
template <class T>
constexpr int kSize = 16 / sizeof(T);

/// Two neighbours in memory.
template <class T>
using Pair = std::conditional_t<
    std::is_same_v<T, float>, float2,
    std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>>;

__device__ inline float2 widen(float2 pair) {
  return pair;
}
__device__ inline float2 widen(__half2 pair) {
  return __half22float2(pair);
}
__device__ inline float2 widen(__nv_bfloat162 pair) {
  return __bfloat1622float2(pair);
}

/// Rounds to the nearest.
template <class T>
__device__ Pair<T> narrow(float2 pair) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float22half2_rn(pair);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float22bfloat162_rn(pair);
  } else {
    return pair;
  }
}

/// A vector of ones.
template <class T>
__device__ uint4 ones() {
  uint4 v;
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) reinterpret_cast<Pair<T>*>(&v)[i] = narrow<T>({1, 1});
  return v;
}

// [unaligned]
/// The 16 bytes from `address`, a multiple of 2: out of the two vectors of
/// memory that cover them, or the one.
__device__ inline uint4 load_unaligned(const void* address) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const auto* covering = reinterpret_cast<const uint4*>(begin - begin % 16);
  const uint4 low = covering[0];
  if (begin % 16 == 0) return low;
  const uint4 high = covering[1];
  unsigned word[8] = {low.x,  low.y,  low.z,  low.w,  //
                      high.x, high.y, high.z, high.w};
  if (begin & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) word[i] = word[i + 2];
  }
  if (begin & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) word[i] = word[i + 1];
  }
  const unsigned bits = begin % 4 * 8;  // 0 or 16
  return make_uint4(
      __funnelshift_r(word[0], word[1], bits), __funnelshift_r(word[1], word[2], bits),
      __funnelshift_r(word[2], word[3], bits), __funnelshift_r(word[3], word[4], bits));
}
// [unaligned]

// [edges]
/// The vector of a row that begins at column col; 0 where the row has no such
/// column. If kAligned, it is at a 16-byte address, and all of it is there or
/// nothing.
template <bool kAligned, class T>
__device__ uint4 load(const T* row, int col, int hidden) {
  uint4 v = make_uint4(0, 0, 0, 0);
  if constexpr (kAligned) {
    if (col < hidden) v = *reinterpret_cast<const uint4*>(row + col);
    return v;
  }
  // What the vectors of memory hold that cover it has to be of this row.
  const auto begin = reinterpret_cast<std::uintptr_t>(row + col);
  const int before = begin % 16 / sizeof(T);
  const int after = before == 0 ? 0 : kSize<T> - before;
  if (col >= before && col + kSize<T> + after <= hidden) {
    return load_unaligned(row + col);
  }
#pragma unroll
  for (int i = 0; i < kSize<T>; ++i) {
    const bool exists = col + i >= 0 && col + i < hidden;
    if (exists) reinterpret_cast<T*>(&v)[i] = row[col + i];
  }
  return v;
}

/// Writes what the row has of a vector at a 16-byte address.
template <bool kAligned, class T>
__device__ void store(T* row, int col, int hidden, const uint4& v) {
  if (col >= 0 && col + kSize<T> <= hidden) {
    *reinterpret_cast<uint4*>(row + col) = v;
  } else if constexpr (!kAligned) {
#pragma unroll
    for (int i = 0; i < kSize<T>; ++i) {
      const bool exists = col + i >= 0 && col + i < hidden;
      if (exists) row[col + i] = reinterpret_cast<const T*>(&v)[i];
    }
  }
}
// [edges]

/// The sum of a vector's squares.
template <class T>
__device__ float squares(const uint4& v) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) {
    const float2 pair = widen(reinterpret_cast<const Pair<T>*>(&v)[i]);
    sum += pair.x * pair.x + pair.y * pair.y;
  }
  return sum;
}

/// A vector times rstd times the weight and its bias, rounded once.
template <class T, class W>
__device__ uint4 scaled(const uint4& v, float rstd, const uint4* weight, float bias) {
  uint4 result;
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) {
    const float2 x = widen(reinterpret_cast<const Pair<T>*>(&v)[i]);
    const float2 w = widen(reinterpret_cast<const Pair<W>*>(weight)[i]);
    const float2 y = {x.x * rstd * (w.x + bias), x.y * rstd * (w.y + bias)};
    reinterpret_cast<Pair<T>*>(&result)[i] = narrow<T>(y);
  }
  return result;
}

/// Sum over groups of neighbouring lanes, a power of two of them. Every lane gets its group's.
__device__ inline float group_sum(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// Sum over the blockDim.x threads of a row, if they are in one warp, or have a block for
/// themselves. Every thread gets it.
template <bool kInWarp>
__device__ float row_sum(float value) {
  if constexpr (kInWarp) {
    return group_sum(value, blockDim.x);
  } else {
    __shared__ float partial[32];
    const int lane = threadIdx.x % 32;
    value = group_sum(value, 32);
    if (lane == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's sum is in partial[]
    return group_sum(lane < blockDim.x / 32 ? partial[lane] : 0, 32);
  }
}

}  // namespace rmsnorm::any_tensor
