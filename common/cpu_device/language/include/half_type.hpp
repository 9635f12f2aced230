#pragma once
/// \file
/// What the stand-ins for cuda_bf16.h and cuda_fp16.h share: 16 bits as they are stored, their
/// conversions, and their arithmetic: that of floats, rounded once more, which gives the same.
/// Where it would not, the first rounding is to odd: what is not exact gets a 1 as its last bit.

#include <cuda_runtime.h>

#include <bit>
#include <compare>
#include <cstdint>

#include "common/base/half.hpp"

namespace rmsnorm::cpu_device {

/// The value of an fp16, as a GPU converts it.
inline float from_fp16(std::uint16_t bits) {
  return one_nan(fp16_to_float(bits));
}
/// Of a bf16, the bits are those of the float.
inline float from_bf16(std::uint16_t bits) {
  return bf16_to_float(bits);
}

/// A float for a double, rounded to odd.
inline float to_odd(double value) {
  const float cut = __double2float_rz(value);
  const bool is_exact = double{cut} == value || std::isnan(value);
  return is_exact ? cut : std::bit_cast<float>(std::bit_cast<std::uint32_t>(cut) | 1);
}

/// a * b + c of 16 bits each, rounded to odd. The product is exact in a double.
inline double fma_to_odd(float a, float b, float c) {
  const double product = double{a} * b;
  const double sum = product + c;
  const double of_c = sum - product;
  const double error = (product - (sum - of_c)) + (c - of_c);
  const bool is_even = (std::bit_cast<std::uint64_t>(sum) & 1) == 0;
  if (!(std::abs(error) > 0) || !is_even) return sum;
  return std::nextafter(sum, error > 0 ? HUGE_VAL : -HUGE_VAL);
}

}  // namespace rmsnorm::cpu_device

// The functions of a value and of a pair.
#define RMSNORM_HALF_OF_ONE(Type, Pair, name, name_of_pair, result) \
  inline Type name(Type a) {                                        \
    return Type(result);                                            \
  }                                                                 \
  inline Pair name_of_pair(Pair a) {                                \
    return {name(a.x), name(a.y)};                                  \
  }
#define RMSNORM_HALF_OF_TWO(Type, Pair, name, name_of_pair, result) \
  inline Type name(Type a, Type b) {                                \
    return Type(result);                                            \
  }                                                                 \
  inline Pair name_of_pair(Pair a, Pair b) {                        \
    return {name(a.x, b.x), name(a.y, b.y)};                        \
  }
#define RMSNORM_HALF_COMPARED(Type, Pair, name, name_of_pair, name_of_both, result) \
  inline bool name(Type a, Type b) {                                                \
    return result;                                                                  \
  }                                                                                 \
  inline Pair name_of_pair(Pair a, Pair b) {                                        \
    return {Type(name(a.x, b.x)), Type(name(a.y, b.y))};                            \
  }                                                                                 \
  inline bool name_of_both(Pair a, Pair b) {                                        \
    return name(a.x, b.x) && name(a.y, b.y);                                        \
  }
#define RMSNORM_HALF_ASSIGNED(Type, sign)          \
  inline Type& operator sign##=(Type& a, Type b) { \
    return a = a sign b;                           \
  }

/// The type `Type`, its pair `Pair`, both as bits without a meaning (..._raw), and CUDA's functions
/// for them, in whose names the type is `name`. `format` is how common/base/half.hpp calls it.
#define RMSNORM_HALF_TYPE(Type, Pair, PairRaw, name, format)                                       \
  struct Type##_raw {                                                                              \
    unsigned short x;                                                                              \
  };                                                                                               \
  struct Type {                                                                                    \
    Type() = default;                                                                              \
    Type(float value) : bits(rmsnorm::float_to_##format(value)) {}                                 \
    Type(double value) : Type(rmsnorm::cpu_device::to_odd(value)) {}                               \
    Type(int value) : Type(static_cast<float>(value)) {}                                           \
    Type(unsigned value) : Type(static_cast<float>(value)) {}                                      \
    Type(Type##_raw raw) : bits(raw.x) {}                                                          \
    operator Type##_raw() const { return {bits}; }                                                 \
    operator float() const { return rmsnorm::cpu_device::from_##format(bits); }                    \
    explicit operator bool() const { return (bits & 0x7fff) != 0; }                                \
    std::uint16_t bits; /* CUDA calls it otherwise */                                              \
  };                                                                                               \
  RMSNORM_VECTOR_OF_2(Pair, Type, 4)                                                               \
  struct PairRaw {                                                                                 \
    PairRaw() = default;                                                                           \
    PairRaw(unsigned short x_, unsigned short y_) : x(x_), y(y_) {}                                \
    PairRaw(Pair pair) : x(pair.x.bits), y(pair.y.bits) {}                                         \
    operator Pair() const { return {Type##_raw{x}, Type##_raw{y}}; }                               \
    unsigned short x, y;                                                                           \
  };                                                                                               \
  RMSNORM_OF_ONE(float, __float2##name##_rn, Type, Type(a))                                        \
  RMSNORM_OF_ONE(float, __float2##name, Type, Type(a))                                             \
  RMSNORM_OF_ONE(Type, __##name##2float, float, static_cast<float>(a))                             \
  RMSNORM_OF_ONE(Type, __##name##_as_ushort, unsigned short, a.bits)                               \
  RMSNORM_OF_ONE(unsigned short, __ushort_as_##name, Type, Type##_raw{a})                          \
  RMSNORM_OF_TWO(Type, __halves2##Pair, Pair, {a, b})                                              \
  RMSNORM_OF_TWO(float, __floats2##Pair##_rn, Pair, {Type(a), Type(b)})                            \
  RMSNORM_OF_ONE(float2, __float22##Pair##_rn, Pair, {Type(a.x), Type(a.y)})                       \
  RMSNORM_OF_ONE(float, __float2##Pair##_rn, Pair, {Type(a), Type(a)})                             \
  RMSNORM_OF_ONE(Pair, __low2float, float, static_cast<float>(a.x))                                \
  RMSNORM_OF_ONE(Pair, __high2float, float, static_cast<float>(a.y))                               \
  RMSNORM_OF_ONE(Pair, __##Pair##2float2, float2, {__low2float(a), __high2float(a)})               \
  RMSNORM_OF_ONE(double, __double2##name, Type, Type(a))                                           \
  RMSNORM_OF_ONE(int, __int2##name##_rn, Type, Type(a))                                            \
  RMSNORM_OF_ONE(Type, __##name##2int_rn, int, __float2int_rn(a))                                  \
  RMSNORM_OF_ONE(Type, __##name##2int_rz, int, __float2int_rz(a))                                  \
  RMSNORM_OF_ONE(Pair, __low2##name, Type, a.x)                                                    \
  RMSNORM_OF_ONE(Pair, __high2##name, Type, a.y)                                                   \
  RMSNORM_OF_ONE(Type, __##name##2##Pair, Pair, {a, a})                                            \
  RMSNORM_OF_ONE(Pair, __low2##Pair, Pair, {a.x, a.x})                                             \
  RMSNORM_OF_ONE(Pair, __high2##Pair, Pair, {a.y, a.y})                                            \
  RMSNORM_OF_ONE(Pair, __lowhigh2highlow, Pair, {a.y, a.x})                                        \
  RMSNORM_OF_TWO(Pair, __lows2##Pair, Pair, {a.x, b.x})                                            \
  RMSNORM_OF_TWO(Pair, __highs2##Pair, Pair, {a.y, b.y})                                           \
  RMSNORM_HALF_OF_TWO(Type, Pair, operator+, operator+, float{a} + float{b})                       \
  RMSNORM_HALF_OF_TWO(Type, Pair, operator-, operator-, float{a} - float{b})                       \
  RMSNORM_HALF_OF_TWO(Type, Pair, operator*, operator*, float{a} * float{b})                       \
  RMSNORM_HALF_OF_TWO(Type, Pair, operator/, operator/, float{a} / float{b})                       \
  RMSNORM_HALF_OF_TWO(Type, Pair, __hadd, __hadd2, a + b)                                          \
  RMSNORM_HALF_OF_TWO(Type, Pair, __hsub, __hsub2, a - b)                                          \
  RMSNORM_HALF_OF_TWO(Type, Pair, __hmul, __hmul2, a* b)                                           \
  RMSNORM_HALF_OF_TWO(Type, Pair, __hdiv, __h2div, a / b)                                          \
  RMSNORM_HALF_OF_TWO(Type, Pair, __hadd_rn, __hadd2_rn, a + b)                                    \
  RMSNORM_HALF_OF_TWO(Type, Pair, __hmul_rn, __hmul2_rn, a* b)                                     \
  RMSNORM_HALF_OF_TWO(                                                                             \
      Type, Pair, __hmax, __hmax2, rmsnorm::cpu_device::greatest(float{a}, float{b}))              \
  RMSNORM_HALF_OF_TWO(Type, Pair, __hmin, __hmin2, rmsnorm::cpu_device::least(float{a}, float{b})) \
  RMSNORM_HALF_OF_ONE(Type, Pair, operator-, operator-, -float{a})                                 \
  RMSNORM_HALF_OF_ONE(Type, Pair, __hneg, __hneg2, -float{a})                                      \
  RMSNORM_HALF_OF_ONE(Type, Pair, __habs, __habs2, std::fabs(float{a}))                            \
  RMSNORM_HALF_OF_ONE(Type, Pair, hsqrt, h2sqrt, std::sqrt(float{a}))                              \
  RMSNORM_HALF_OF_ONE(Type, Pair, hrsqrt, h2rsqrt, rsqrtf(a))                                      \
  RMSNORM_HALF_OF_ONE(Type, Pair, hrcp, h2rcp, 1 / float{a})                                       \
  RMSNORM_HALF_OF_ONE(Type, Pair, hexp, h2exp, std::exp(float{a}))                                 \
  RMSNORM_HALF_OF_ONE(Type, Pair, hexp2, h2exp2, std::exp2(float{a}))                              \
  RMSNORM_HALF_OF_ONE(Type, Pair, hlog, h2log, std::log(float{a}))                                 \
  RMSNORM_HALF_OF_ONE(Type, Pair, hlog2, h2log2, std::log2(float{a}))                              \
  RMSNORM_HALF_COMPARED(Type, Pair, __heq, __heq2, __hbeq2, float{a} == float{b})                  \
  RMSNORM_HALF_COMPARED(Type, Pair, __hne, __hne2, __hbne2, std::islessgreater(a, b))              \
  RMSNORM_HALF_COMPARED(Type, Pair, __hlt, __hlt2, __hblt2, float{a} < float{b})                   \
  RMSNORM_HALF_COMPARED(Type, Pair, __hle, __hle2, __hble2, float{a} <= float{b})                  \
  RMSNORM_HALF_COMPARED(Type, Pair, __hgt, __hgt2, __hbgt2, float{a} > float{b})                   \
  RMSNORM_HALF_COMPARED(Type, Pair, __hge, __hge2, __hbge2, float{a} >= float{b})                  \
  RMSNORM_OF_TWO(Type, operator==, bool, float{a} == float{b})                                     \
  RMSNORM_OF_TWO(Type, operator<=>, auto, float{a} <=> float{b})                                   \
  inline Type __hfma(Type a, Type b, Type c) {                                                     \
    return rmsnorm::cpu_device::fma_to_odd(a, b, c);                                               \
  }                                                                                                \
  inline Pair __hfma2(Pair a, Pair b, Pair c) {                                                    \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                         \
  }                                                                                                \
  RMSNORM_OF_ONE(Type, __hisnan, bool, std::isnan(float{a}))                                       \
  RMSNORM_OF_ONE(Type, __hisinf, int, std::isinf(float{a}) ? (float{a} < 0 ? -1 : 1) : 0)          \
  RMSNORM_HALF_ASSIGNED(Type, +)                                                                   \
  RMSNORM_HALF_ASSIGNED(Type, -)                                                                   \
  RMSNORM_HALF_ASSIGNED(Type, *)                                                                   \
  RMSNORM_HALF_ASSIGNED(Type, /)                                                                   \
  RMSNORM_HALF_ASSIGNED(Pair, +)                                                                   \
  RMSNORM_HALF_ASSIGNED(Pair, -)                                                                   \
  RMSNORM_HALF_ASSIGNED(Pair, *)                                                                   \
  RMSNORM_HALF_ASSIGNED(Pair, /)
