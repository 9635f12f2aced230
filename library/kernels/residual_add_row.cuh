#pragma once
/// \file
/// What the kernels of a residual add do with a row: vectors of 16 bytes or of fewer.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "library/kernels/row.cuh"

namespace rmsnorm::kernels {

/// Neighbouring elements that move together: 16 bytes if hidden allows it. They stay in words of 32
/// bits: taken apart at once, each load would have to be waited for.
template <class T, int kWidth>
struct alignas(kWidth * sizeof(T)) Vector {
  using Word = std::conditional_t<kWidth * sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  Word words[kWidth * sizeof(T) / sizeof(Word)];
};

/// Element j of a vector.
template <class T, int kWidth>
__device__ float element(const Vector<T, kWidth>& v, int j) {
  const unsigned bits = v.words[j * sizeof(T) / sizeof(v.words[0])];
  if constexpr (std::is_same_v<T, float>) {
    return __uint_as_float(bits);
  } else if constexpr (std::is_same_v<T, __half>) {
    const float2 pair = __half22float2(reinterpret_cast<const __half2&>(bits));
    return j % 2 == 0 ? pair.x : pair.y;
  } else {  // the upper half of a float
    return __uint_as_float(j % 2 == 0 ? bits << 16 : bits & 0xffff0000);
  }
}

/// Neighbouring numbers, each rounded to the nearest of the type.
template <class T, int kWidth>
__device__ __forceinline__ Vector<T, kWidth> rounded(const float* number) {
  Vector<T, kWidth> v;
#pragma unroll
  for (int j = 0; j < kWidth; ++j) reinterpret_cast<T*>(&v)[j] = static_cast<T>(number[j]);
  return v;
}

}  // namespace rmsnorm::kernels
