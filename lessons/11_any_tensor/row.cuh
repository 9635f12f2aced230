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
__device__ inline std::uintptr_t address(const void* pointer) {
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

// [shifted]
/// The bytes `by` to `by` + 15 of two neighbouring vectors; by is even and less
/// than 16.
__device__ inline uint4 shifted(const uint4& a, const uint4& b, unsigned by) {
  unsigned word[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  if (by & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) word[i] = word[i + 2];
  }
  if (by & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) word[i] = word[i + 1];
  }
  const unsigned bits = by % 4 * 8;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    word[i] = __funnelshift_r(word[i], word[i + 1], bits);
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}
// [shifted]

// [load]
/// Loads vectors of a row: kParts that begin at column `first`, one after the
/// other, as many `step` columns on, and so on; 0 where the row has no column.
/// kAligned: vectors are at 16-byte addresses, in the row or behind it.
/// kReadOnly: nobody writes the row; its loads need not keep off from stores.
template <bool kAligned, bool kReadOnly, int kParts, int kCount, class T>
__device__ void load(uint4 (&v)[kCount], const T* row, int hidden, int first, int step) {
  const auto column = [&](int k) { return first + k / kParts * step + k % kParts * kSize<T>; };
  const auto read = [](const T* from) {
    const auto* const p = reinterpret_cast<const uint4*>(from);
    return kReadOnly ? __ldg(p) : *p;
  };
#pragma unroll
  for (uint4& zeros : v) zeros = make_uint4(0, 0, 0, 0);
  if constexpr (kAligned) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (column(k) < hidden) v[k] = read(row + column(k));
    }
    return;
  }
  // What covers a vector, one vector of memory or two, has to be in the row.
  const unsigned offset = address(row + first) % 16;
  const int before = offset / sizeof(T);
  const int covered = offset == 0 ? kSize<T> : 2 * kSize<T>;
  const auto is_covered = [&](int k) {
    const int begin = column(k) - before;
    return begin >= 0 && begin + covered <= hidden;
  };
  if (offset == 0) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (is_covered(k)) v[k] = read(row + column(k));
    }
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const T* const from = row + column(k) - before;
      if (!is_covered(k)) continue;
      v[k] = shifted(read(from), read(from + kSize<T>), offset);
    }
  }
  // The others begin or end the row: element by element.
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    if (is_covered(k)) continue;
#pragma unroll
    for (int i = 0; i < kSize<T>; ++i) {
      const int col = column(k) + i;
      if (col < 0 || col >= hidden) continue;
      reinterpret_cast<T*>(&v[k])[i] = row[col];
    }
  }
}
// [load]

// [store]
/// Stores what the row has of a vector at column `first`.
template <bool kAligned, class T>
__device__ void store(T* row, int first, int hidden, const uint4& v) {
  const bool is_inside = first >= 0 && first + kSize<T> <= hidden;
  if (is_inside && (kAligned || address(row + first) % 16 == 0)) {
    *reinterpret_cast<uint4*>(row + first) = v;
  } else if constexpr (!kAligned) {
#pragma unroll
    for (int i = 0; i < kSize<T>; ++i) {
      const int col = first + i;
      if (col < 0 || col >= hidden) continue;
      row[col] = reinterpret_cast<const T*>(&v)[i];
    }
  }
}
// [store]

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
