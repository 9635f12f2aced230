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

/// Unaligned vectors of a row, 16 bytes each, from its column `head` on.
template <class T>
struct UnalignedVectors {
  const uint4* aligned;  ///< aligned vector in which vector 0 begins
  int before;            ///< elements of it in front of vector 0
  int first, last;       ///< vectors whose aligned ones are all the row's own: first to last - 1

  __device__ UnalignedVectors(const T* row, int head, int hidden) {
    before = behind_boundary(row + head);
    aligned = reinterpret_cast<const uint4*>(row + head - before);
    first = before > head ? 1 : 0;
    last = (hidden - head + before) / kSize<T> - 1;
  }

  /// Vector i: an aligned one, or what is needed of two.
  __device__ uint4 operator[](int i) const {
    if (before == 0) return aligned[i];
    if (first <= i && i < last) {
      const unsigned offset = before * sizeof(T);
      const auto* half = reinterpret_cast<const uint2*>(aligned + i) + offset / 8;
      return shifted(half[0], half[1], half[2], offset % 8);
    }
    uint4 result;  // element by element
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      reinterpret_cast<T*>(&result)[e] = reinterpret_cast<const T*>(aligned + i)[before + e];
    }
    return result;
  }
};

/// The sum of a window's squares. A window is in two vectors, and so are those kLanes, 2 * kLanes,
/// ... windows further on, whose squares are added up column by column: the lane before has those
/// of the first columns and sends their sum; this lane goes on in their order.
/// \param squares  of each element of this lane's vectors
template <int kLanes, int kN>
__device__ float sum_of_window(const float* squares, int head, int lane) {
  float sum = 0;
#pragma unroll
  for (int e = 0; e < kN; ++e) {
    if (e >= kN - head) sum += squares[e];
  }
  sum = __shfl_sync(0xffffffff, sum, lane + kLanes - 1, kLanes);
#pragma unroll
  for (int e = 0; e < kN; ++e) {
    if (e < kN - head) sum += squares[e];
  }
  return sum;
}

/// The weight of x's vector number i: where there is none, ones.
template <class T, class W>
__device__ void load_weight(
    const W* weight, const UnalignedVectors<W>& of_weight, int i, uint4* to) {
  constexpr int kParts = sizeof(W) / sizeof(T);
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    to[part] = weight == nullptr ? ones<W>() : of_weight[i * kParts + part];
  }
}

}  // namespace rmsnorm::kernels
