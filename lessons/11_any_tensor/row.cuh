#pragma once
/// \file
/// A row in vectors of 16 bytes, wherever it lies.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "lessons/11_any_tensor/any_tensor.hpp"

namespace rmsnorm::any_tensor {

/// A row's place in its tensor.
struct Place {
  std::int64_t outer, inner;
};

/// Where row number `row` is. At most one division, in 32 bits if they are enough.
__device__ inline Place place_of(std::int64_t row, const Tensor& tensor) {
  if (tensor.inner >= tensor.rows) return {0, row};
  const bool is_small = tensor.rows >> 32 == 0;
  const std::int64_t outer = is_small
                                 ? static_cast<unsigned>(row) / static_cast<unsigned>(tensor.inner)
                                 : row / tensor.inner;
  return {outer, row - outer * tensor.inner};
}

/// The first column of the row there.
template <class T>
__device__ T* find(const Rows& rows, const Place& place) {
  return reinterpret_cast<T*>(
      static_cast<char*>(rows.data) + place.outer * rows.outer_stride +
      place.inner * rows.inner_stride);
}

/// An address as a number.
__device__ inline std::uintptr_t begin_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
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
/// The bytes `offset` to `offset` + 15 of two neighbouring vectors, where offset
/// is even and less than 16.
__device__ inline uint4 shifted(const uint4& low, const uint4& high, unsigned offset) {
  unsigned word[8] = {low.x,  low.y,  low.z,  low.w,  //
                      high.x, high.y, high.z, high.w};
  if (offset & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) word[i] = word[i + 2];
  }
  if (offset & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) word[i] = word[i + 1];
  }
  const unsigned bits = offset % 4 * 8;
  return make_uint4(
      __funnelshift_r(word[0], word[1], bits), __funnelshift_r(word[1], word[2], bits),
      __funnelshift_r(word[2], word[3], bits), __funnelshift_r(word[3], word[4], bits));
}

/// Loads the vectors of a row that begin at the columns column(0), column(1)
/// and so on, with 0 for columns that the row does not have. If kAligned, each
/// is at a 16-byte address, and in the row or behind it.
template <bool kAligned, int kCount, class T, class Column, class Read>
__device__ void load(uint4 (&v)[kCount], const T* row, int hidden, Column column, Read read) {
  if constexpr (kAligned) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      v[k] = make_uint4(0, 0, 0, 0);
      if (column(k) < hidden) v[k] = read(reinterpret_cast<const uint4*>(row + column(k)));
    }
    return;
  }
  // Vectors of memory that cover one of the row's, both or the one, have to lie
  // in the row; what does not begins and ends it.
  const unsigned offset = begin_of(row + column(0)) % 16;
  const int before = offset / sizeof(T);
  const int covered = offset == 0 ? kSize<T> : 2 * kSize<T>;
  const auto is_inside = [&](int k) {
    const int begin = column(k) - before;
    return begin >= 0 && begin + covered <= hidden;
  };
#pragma unroll
  for (int k = 0; k < kCount; ++k) v[k] = make_uint4(0, 0, 0, 0);
  if (offset == 0) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (is_inside(k)) v[k] = read(reinterpret_cast<const uint4*>(row + column(k)));
    }
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (!is_inside(k)) continue;
      const auto* p = reinterpret_cast<const uint4*>(row + column(k) - before);
      v[k] = shifted(read(p), read(p + 1), offset);
    }
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    if (is_inside(k)) continue;
#pragma unroll
    for (int i = 0; i < kSize<T>; ++i) {
      const int col = column(k) + i;
      if (col >= 0 && col < hidden) reinterpret_cast<T*>(&v[k])[i] = row[col];
    }
  }
}
// [unaligned]

// [edges]
/// Writes what the row has of a vector: at once if all of it, at a 16-byte address.
template <bool kAligned, class T>
__device__ void store(T* row, int col, int hidden, const uint4& v) {
  const bool is_inside = col >= 0 && col + kSize<T> <= hidden;
  if (is_inside && (kAligned || begin_of(row + col) % 16 == 0)) {
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

}  // namespace rmsnorm::any_tensor
