#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name: fp16 as it is stored, and
/// its conversions. It has no arithmetic: sums and products are those of floats.

#include <cuda_runtime.h>

#include "common/base/half.hpp"

/// 16 bits of memory.
struct __half {
  __half() = default;
  explicit __half(float value) : bits(rmsnorm::float_to_fp16(value)) {}
  explicit operator float() const { return rmsnorm::fp16_to_float(bits); }
  std::uint16_t bits;  ///< CUDA calls it otherwise
};
using half = __half;

RMSNORM_VECTOR_OF_2(half2, __half, 4)
using __half2 = half2;

inline __half __float2half_rn(float value) {
  return __half(value);
}
inline __half __float2half(float value) {
  return __half(value);
}
inline float __half2float(__half value) {
  return static_cast<float>(value);
}
inline unsigned short __half_as_ushort(__half value) {
  return value.bits;
}
inline __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.bits = bits;
  return value;
}

inline __half2 __halves2half2(__half x, __half y) {
  return {x, y};
}
inline __half2 __floats2half2_rn(float x, float y) {
  return {__half(x), __half(y)};
}
inline __half2 __float22half2_rn(float2 value) {
  return __floats2half2_rn(value.x, value.y);
}
inline __half2 __float2half2_rn(float value) {
  return __floats2half2_rn(value, value);
}
inline float2 __half22float2(__half2 value) {
  return {__half2float(value.x), __half2float(value.y)};
}
inline float __low2float(__half2 value) {
  return __half2float(value.x);
}
inline float __high2float(__half2 value) {
  return __half2float(value.y);
}
