#pragma once
/// \file
/// Vectors of 16 bytes at any address.

#include <cstdint>

#include "library/kernels/forward_row.cuh"

namespace rmsnorm::kernels {

/// How many elements lie between an address and the 16-byte boundary below it.
template <class T>
__device__ int behind_boundary(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 / sizeof(T);
}

/// The bytes `offset` to `offset` + 15 of 24, where offset is even and less than 8.
__device__ inline uint4 shifted(const uint2& a, const uint2& b, const uint2& c, unsigned offset) {
  unsigned word[6] = {a.x, a.y, b.x, b.y, c.x, c.y};
  if (offset & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) word[i] = word[i + 1];
  }
  const unsigned bits = offset % 4 * 8;
  return make_uint4(
      __funnelshift_r(word[0], word[1], bits), __funnelshift_r(word[1], word[2], bits),
      __funnelshift_r(word[2], word[3], bits), __funnelshift_r(word[3], word[4], bits));
}

/// A row in stretches of 16 bytes, from its column `head` on.
template <class T>
struct Stretches {
  const uint4* vector;  ///< of memory: the one in which stretch 0 begins
  int before;           ///< elements of it in front of the stretch
  int first, last;      ///< stretches whose vectors are all the row's own: first to last - 1

  __device__ Stretches(const T* row, int head, int hidden) {
    before = behind_boundary(row + head);
    vector = reinterpret_cast<const uint4*>(row + head - before);
    first = before > head ? 1 : 0;
    last = (hidden - head + before) / kSize<T> - 1;
  }

  /// Stretch i: one vector of memory, or what is needed of two.
  __device__ uint4 operator[](int i) const {
    if (before == 0) return vector[i];
    if (first <= i && i < last) {
      const unsigned offset = before * sizeof(T);
      const auto* half = reinterpret_cast<const uint2*>(vector + i) + offset / 8;
      return shifted(half[0], half[1], half[2], offset % 8);
    }
    uint4 result;  // element by element
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      reinterpret_cast<T*>(&result)[e] = reinterpret_cast<const T*>(vector + i)[before + e];
    }
    return result;
  }
};

/// The weight of x's stretch number i: where there is none, ones.
template <class T, class W>
__device__ void load_weight(const W* weight, const Stretches<W>& of_weight, int i, uint4* to) {
  constexpr int kParts = sizeof(W) / sizeof(T);
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    to[part] = weight == nullptr ? ones<W>() : of_weight[i * kParts + part];
  }
}

}  // namespace rmsnorm::kernels
