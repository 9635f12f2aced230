#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name: 8 bits as they are stored,
/// alone, in twos and in fours, and their conversions. They have no arithmetic.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <concepts>

#include "common/base/fp8.hpp"

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

/// One value. Of a NaN, CUDA keeps the sign, and of e5m2 the mantissa's first two bits; of one that
/// was a float, neither.
inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(
    double value, __nv_saturation_t saturation, __nv_fp8_interpretation_t type) {
  if (value != value) {
    const auto bits = rmsnorm::bits_of(value);
    const auto mantissa = type == __NV_E4M3 ? 1 : bits >> 50 & 3;
    return static_cast<__nv_fp8_storage_t>(bits >> 63 << 7 | 0x7e | mantissa);
  }
  return rmsnorm::to_fp8(
      type == __NV_E4M3 ? rmsnorm::Fp8::e4m3 : rmsnorm::Fp8::e5m2, value,
      saturation == __NV_SATFINITE ? rmsnorm::Overflow::saturates : rmsnorm::Overflow::leaves);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(
    float value, __nv_saturation_t saturation, __nv_fp8_interpretation_t type) {
  if (value != value) return rmsnorm::kFp8Nan;
  return __nv_cvt_double_to_fp8(value, saturation, type);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(
    __half_raw value, __nv_saturation_t saturation, __nv_fp8_interpretation_t type) {
  return __nv_cvt_float_to_fp8(rmsnorm::fp16_to_float(value.x), saturation, type);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(
    __nv_bfloat16_raw value, __nv_saturation_t saturation, __nv_fp8_interpretation_t type) {
  return __nv_cvt_float_to_fp8(rmsnorm::bf16_to_float(value.x), saturation, type);
}
/// Every value is a half's, too; every NaN becomes the same.
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t type) {
  const auto format = type == __NV_E4M3 ? rmsnorm::Fp8::e4m3 : rmsnorm::Fp8::e5m2;
  return {rmsnorm::float_to_fp16(rmsnorm::fp8_to_float(format, bits))};
}

// Two values, of which the first is the lower byte.
#define RMSNORM_FP8_PAIR(function, of_one, Pair, One)                                          \
  inline __nv_fp8x2_storage_t function(                                                        \
      Pair value, __nv_saturation_t saturation, __nv_fp8_interpretation_t type) {              \
    return static_cast<__nv_fp8x2_storage_t>(                                                  \
        of_one(One{value.x}, saturation, type) | of_one(One{value.y}, saturation, type) << 8); \
  }
RMSNORM_FP8_PAIR(__nv_cvt_double2_to_fp8x2, __nv_cvt_double_to_fp8, double2, double)
RMSNORM_FP8_PAIR(__nv_cvt_float2_to_fp8x2, __nv_cvt_float_to_fp8, float2, float)
RMSNORM_FP8_PAIR(__nv_cvt_halfraw2_to_fp8x2, __nv_cvt_halfraw_to_fp8, __half2_raw, __half_raw)
RMSNORM_FP8_PAIR(
    __nv_cvt_bfloat16raw2_to_fp8x2, __nv_cvt_bfloat16raw_to_fp8, __nv_bfloat162_raw,
    __nv_bfloat16_raw)
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(
    __nv_fp8x2_storage_t bits, __nv_fp8_interpretation_t type) {
  return {
      __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), type).x,
      __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits >> 8), type).x};
}

/// One value of a type, two and four of them. What they are made from is rounded, and saturates.
#define RMSNORM_FP8_TYPE(format, type)                                                         \
  struct __nv_fp8_##format {                                                                   \
    __nv_fp8_##format() = default;                                                             \
    explicit __nv_fp8_##format(double value)                                                   \
        : __x(__nv_cvt_double_to_fp8(value, __NV_SATFINITE, type)) {}                          \
    explicit __nv_fp8_##format(float value)                                                    \
        : __x(__nv_cvt_float_to_fp8(value, __NV_SATFINITE, type)) {}                           \
    explicit __nv_fp8_##format(__half value) : __nv_fp8_##format(static_cast<float>(value)) {} \
    explicit __nv_fp8_##format(__nv_bfloat16 value)                                            \
        : __nv_fp8_##format(static_cast<float>(value)) {}                                      \
    explicit __nv_fp8_##format(std::integral auto value)                                       \
        : __nv_fp8_##format(static_cast<float>(value)) {}                                      \
    explicit operator __half() const { return __nv_cvt_fp8_to_halfraw(__x, type); }            \
    explicit operator float() const { return static_cast<float>(static_cast<__half>(*this)); } \
    explicit operator __nv_bfloat16() const { return static_cast<float>(*this); }              \
    explicit operator double() const { return static_cast<float>(*this); }                     \
    explicit operator bool() const { return (__x & 0x7f) != 0; }                               \
    __nv_fp8_storage_t __x;                                                                    \
  };                                                                                           \
  struct __nv_fp8x2_##format {                                                                 \
    __nv_fp8x2_##format() = default;                                                           \
    explicit __nv_fp8x2_##format(double2 value)                                                \
        : __x(__nv_cvt_double2_to_fp8x2(value, __NV_SATFINITE, type)) {}                       \
    explicit __nv_fp8x2_##format(float2 value)                                                 \
        : __x(__nv_cvt_float2_to_fp8x2(value, __NV_SATFINITE, type)) {}                        \
    explicit __nv_fp8x2_##format(__half2 value)                                                \
        : __x(__nv_cvt_halfraw2_to_fp8x2(value, __NV_SATFINITE, type)) {}                      \
    explicit __nv_fp8x2_##format(__nv_bfloat162 value)                                         \
        : __x(__nv_cvt_bfloat16raw2_to_fp8x2(value, __NV_SATFINITE, type)) {}                  \
    explicit operator __half2() const { return __nv_cvt_fp8x2_to_halfraw2(__x, type); }        \
    explicit operator float2() const { return __half22float2(static_cast<__half2>(*this)); }   \
    __nv_fp8x2_storage_t __x;                                                                  \
  };                                                                                           \
  struct __nv_fp8x4_##format {                                                                 \
    __nv_fp8x4_##format() = default;                                                           \
    explicit __nv_fp8x4_##format(double4 value)                                                \
        : __nv_fp8x4_##format(double2{value.x, value.y}, double2{value.z, value.w}) {}         \
    explicit __nv_fp8x4_##format(float4 value)                                                 \
        : __nv_fp8x4_##format(float2{value.x, value.y}, float2{value.z, value.w}) {}           \
    explicit __nv_fp8x4_##format(__half2 low, __half2 high)                                    \
        : __nv_fp8x4_##format(__nv_fp8x2_##format(low), __nv_fp8x2_##format(high)) {}          \
    explicit __nv_fp8x4_##format(__nv_bfloat162 low, __nv_bfloat162 high)                      \
        : __nv_fp8x4_##format(__nv_fp8x2_##format(low), __nv_fp8x2_##format(high)) {}          \
    explicit operator float4() const {                                                         \
      const auto half = [](unsigned bits) {                                                    \
        return __half22float2(                                                                 \
            __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bits), type));        \
      };                                                                                       \
      const float2 low = half(__x), high = half(__x >> 16);                                    \
      return {low.x, low.y, high.x, high.y};                                                   \
    }                                                                                          \
    __nv_fp8x4_storage_t __x;                                                                  \
                                                                                               \
   private:                                                                                    \
    __nv_fp8x4_##format(__nv_fp8x2_##format low, __nv_fp8x2_##format high)                     \
        : __x(low.__x | static_cast<unsigned>(high.__x) << 16) {}                              \
    __nv_fp8x4_##format(double2 low, double2 high)                                             \
        : __nv_fp8x4_##format(__nv_fp8x2_##format(low), __nv_fp8x2_##format(high)) {}          \
    __nv_fp8x4_##format(float2 low, float2 high)                                               \
        : __nv_fp8x4_##format(__nv_fp8x2_##format(low), __nv_fp8x2_##format(high)) {}          \
  };
RMSNORM_FP8_TYPE(e4m3, __NV_E4M3)
RMSNORM_FP8_TYPE(e5m2, __NV_E5M2)
