#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name: bf16 as it is stored, and
/// its conversions. It has no arithmetic: sums and products are those of floats.

#include <cuda_runtime.h>

#include "common/base/half.hpp"

/// 16 bits of memory.
struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) : bits(rmsnorm::float_to_bf16(value)) {}
  explicit operator float() const { return rmsnorm::bf16_to_float(bits); }
  std::uint16_t bits;  ///< CUDA calls it otherwise
};
using nv_bfloat16 = __nv_bfloat16;

RMSNORM_VECTOR_OF_2(bfloat162, __nv_bfloat16, 4)
using __nv_bfloat162 = bfloat162;
using nv_bfloat162 = bfloat162;

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return __nv_bfloat16(value);
}
inline __nv_bfloat16 __float2bfloat16(float value) {
  return __nv_bfloat16(value);
}
inline float __bfloat162float(__nv_bfloat16 value) {
  return static_cast<float>(value);
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
  return value.bits;
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 value;
  value.bits = bits;
  return value;
}

inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) {
  return {x, y};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 value) {
  return __floats2bfloat162_rn(value.x, value.y);
}
inline __nv_bfloat162 __float2bfloat162_rn(float value) {
  return __floats2bfloat162_rn(value, value);
}
inline float2 __bfloat1622float2(__nv_bfloat162 value) {
  return {__bfloat162float(value.x), __bfloat162float(value.y)};
}
inline float __low2float(__nv_bfloat162 value) {
  return __bfloat162float(value.x);
}
inline float __high2float(__nv_bfloat162 value) {
  return __bfloat162float(value.y);
}
