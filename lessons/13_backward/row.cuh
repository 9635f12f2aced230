#pragma once
/// \file
/// What both passes do with a row: vectors of any type, and sums that every thread gets.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "common/contract/lesson.hpp"

namespace rmsnorm::backward {

/// kSize neighbours in memory, as they are loaded and stored: 16 bytes, or one element. (As an
/// array of 16-bit elements, the compiler would take it apart, and so wait for it, at once.)
template <class T, int kSize>
using Vector = std::conditional_t<kSize == 1, T, uint4>;

/// One of a vector's elements.
template <class T, class V>
__device__ T& element(V& vector, int e) {
  return reinterpret_cast<T*>(&vector)[e];
}

/// The factors of a vector's columns: weight, of type W, and bias.
template <class W, int kSize>
__device__ void load_factors(float (&factor)[kSize], const void* weight, int vector, float bias) {
  constexpr int kPart = kSize == 1 ? 1 : 16 / sizeof(W);
#pragma unroll
  for (int i = 0; i < kSize; i += kPart) {
    auto w = static_cast<const Vector<W, kPart>*>(weight)[(vector * kSize + i) / kPart];
#pragma unroll
    for (int e = 0; e < kPart; ++e) factor[i + e] = static_cast<float>(element<W>(w, e)) + bias;
  }
}

/// The same for a weight of type fp32, of that of x, T, or none.
template <class T, int kSize>
__device__ void load_factors(
    float (&factor)[kSize], const void* weight, Dtype weight_dtype, int vector, float bias) {
  if (weight == nullptr) {
#pragma unroll
    for (float& f : factor) f = 1;
  } else if (weight_dtype == Dtype::fp32) {
    load_factors<float>(factor, weight, vector, bias);
  } else {
    load_factors<T>(factor, weight, vector, bias);
  }
}

/// Stores sums of a vector's columns.
template <int kSize>
__device__ void store_sums(float* to, int vector, const float (&sums)[kSize]) {
  if constexpr (kSize == 1) {
    to[vector] = sums[0];
  } else {
#pragma unroll
    for (int e = 0; e < kSize; e += 4) {
      reinterpret_cast<float4*>(to)[(vector * kSize + e) / 4] =
          make_float4(sums[e], sums[e + 1], sums[e + 2], sums[e + 3]);
    }
  }
}

/// Sum over groups of neighbouring lanes. Every lane gets its group's.
__device__ inline float group_sum(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// The rows that a block has at a time: adds up what each of these places, blockDim.y of them, has
/// of (hidden) sums, and stores it. All threads of the block call it.
__device__ inline void add_places(const float* of_place, float* shares, int hidden) {
  __syncthreads();  // the sums of all places are in of_place
  const int threads = blockDim.x * blockDim.y;
  for (int col = threadIdx.y * blockDim.x + threadIdx.x; col < hidden; col += threads) {
    float sum = 0;
    for (int place = 0; place < blockDim.y; ++place) sum += of_place[place * hidden + col];
    shares[col] = sum;
  }
}

}  // namespace rmsnorm::backward
