#pragma once
/// \file
/// What the stand-ins for cuda_bf16.h and cuda_fp16.h share: 16 bits as they are stored, and their
/// conversions. There is no arithmetic: sums and products are those of floats.

#include <cuda_runtime.h>

#include "common/base/half.hpp"

/// The type `Type`, its pair `Pair`, and CUDA's functions for them, in whose names the type is
/// `name`. `format` is how common/base/half.hpp calls it.
#define RMSNORM_HALF_TYPE(Type, Pair, name, format)                              \
  struct Type {                                                                  \
    Type() = default;                                                            \
    explicit Type(float value) : bits(rmsnorm::float_to_##format(value)) {}      \
    explicit operator float() const { return rmsnorm::format##_to_float(bits); } \
    std::uint16_t bits; /* CUDA calls it otherwise */                            \
  };                                                                             \
  RMSNORM_VECTOR_OF_2(Pair, Type, 4)                                             \
  inline Type __float2##name##_rn(float value) {                                 \
    return Type(value);                                                          \
  }                                                                              \
  inline Type __float2##name(float value) {                                      \
    return Type(value);                                                          \
  }                                                                              \
  inline float __##name##2float(Type value) {                                    \
    return static_cast<float>(value);                                            \
  }                                                                              \
  inline unsigned short __##name##_as_ushort(Type value) {                       \
    return value.bits;                                                           \
  }                                                                              \
  inline Type __ushort_as_##name(unsigned short bits) {                          \
    Type value;                                                                  \
    value.bits = bits;                                                           \
    return value;                                                                \
  }                                                                              \
  inline Pair __halves2##Pair(Type x, Type y) {                                  \
    return {x, y};                                                               \
  }                                                                              \
  inline Pair __floats2##Pair##_rn(float x, float y) {                           \
    return {Type(x), Type(y)};                                                   \
  }                                                                              \
  inline Pair __float22##Pair##_rn(float2 value) {                               \
    return {Type(value.x), Type(value.y)};                                       \
  }                                                                              \
  inline Pair __float2##Pair##_rn(float value) {                                 \
    return {Type(value), Type(value)};                                           \
  }                                                                              \
  inline float __low2float(Pair value) {                                         \
    return static_cast<float>(value.x);                                          \
  }                                                                              \
  inline float __high2float(Pair value) {                                        \
    return static_cast<float>(value.y);                                          \
  }                                                                              \
  inline float2 __##Pair##2float2(Pair value) {                                  \
    return {__low2float(value), __high2float(value)};                            \
  }
