#pragma once
/// \file
/// What the backward kernels do with a row: vectors of any type, and the factors of its columns.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "library/kernels/backward_plan.hpp"
#include "library/kernels/row.cuh"

namespace rmsnorm::kernels {

/// kSize neighbours in memory, as they are loaded and stored: 16 bytes, or one element. (As an
/// array of 16-bit elements, the compiler would take it apart, and so wait for it, at once.)
template <class T, int kSize>
using Vector = std::conditional_t<kSize == 1, T, uint4>;

/// One of a vector's elements.
template <class T, class V>
__device__ T& element(V& vector, int e) {
  return reinterpret_cast<T*>(&vector)[e];
}

/// A vector of one element, over and over.
template <class V, class T, int kSize>
__device__ V repeated(T value) {
  V vector;
#pragma unroll
  for (int e = 0; e < kSize; ++e) element<T>(vector, e) = value;
  return vector;
}

/// The factors of a vector's columns: weight, of type W, and bias.
template <class W, int kSize>
__device__ void load_factors(float (&factor)[kSize], const char* weight, int vector, float bias) {
  constexpr int kPart = kSize == 1 ? 1 : 16 / sizeof(W);
#pragma unroll
  for (int i = 0; i < kSize; i += kPart) {
    auto w = reinterpret_cast<const Vector<W, kPart>*>(weight)[(vector * kSize + i) / kPart];
#pragma unroll
    for (int e = 0; e < kPart; ++e) factor[i + e] = static_cast<float>(element<W>(w, e)) + bias;
  }
}

/// The same in an operation. If kAny, the weight is a head's, of any type: that of 16 bits which
/// are not x's is loaded element by element. Otherwise its type is fp32 or x's.
template <class T, bool kAny, int kSize>
__device__ void load_factors(
    float (&factor)[kSize], const Backward& op, std::int64_t to_head, int vector) {
  const char* const weight = static_cast<const char*>(op.weight) + (kAny ? to_head : 0);
  const float bias = op.weight_bias;
  if (op.weight == nullptr) {
#pragma unroll
    for (float& f : factor) f = 1;
  } else if (kAny && is_odd(op.weight_dtype, op.dtype)) {
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      const int col = vector * kSize + e;
      const float w = op.weight_dtype == Dtype::fp16
                          ? static_cast<float>(reinterpret_cast<const __half*>(weight)[col])
                          : static_cast<float>(reinterpret_cast<const __nv_bfloat16*>(weight)[col]);
      factor[e] = w + bias;
    }
  } else if (op.weight_dtype == Dtype::fp32) {
    load_factors<float>(factor, weight, vector, bias);
  } else {
    load_factors<T>(factor, weight, vector, bias);
  }
}

/// The row of a head, wherever it lies.
/// \param period  0, or after how many outer indices there is a leap
template <class T>
__device__ T* find_any(
    const Rows& rows, const Further& further, const Place& place, int period, int head) {
  const std::int64_t leaps = period == 0 ? 0 : static_cast<int>(place.outer) / period;
  const std::int64_t more = leaps * further.leap + head * further.head;
  return find<T>(
      {static_cast<char*>(rows.data) + more, rows.outer_stride, rows.inner_stride}, place);
}

/// The rows that a block has at a time: adds up what each of these places, blockDim.y of them, has
/// of (hidden) sums, and stores it. All threads of the block call it.
__device__ inline void add_places(const float* of_place, float* sums, int hidden) {
  __syncthreads();  // the sums of all places are in of_place
  const int threads = blockDim.x * blockDim.y;
  for (int col = threadIdx.y * blockDim.x + threadIdx.x; col < hidden; col += threads) {
    float sum = 0;
    for (int place = 0; place < blockDim.y; ++place) sum += of_place[place * hidden + col];
    sums[col] = sum;
  }
}

/// Keeps the compiler from keeping what it has computed of a vector: there are too few registers.
__device__ inline void forget([[maybe_unused]] uint4& vector) {
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(vector.x), "+r"(vector.y), "+r"(vector.z), "+r"(vector.w));
#endif
}

}  // namespace rmsnorm::kernels
