#pragma once
/// \file
/// CUDA's functions of numbers that C++ does not have. The fast ones take a GPU's way, by powers
/// and logarithms of 2 in fp32: where that loses digits, they are lost here as well.

#include <math.h>  // also outside of std, as CUDA has them

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace rmsnorm::cpu_device {

/// What a calculation gives if its last bit is rounded in one of <cfenv>'s directions.
template <int direction, class T, class... Numbers>
[[gnu::noinline]] T rounded(T (*calculate)(Numbers...), Numbers... numbers) {
  const int before = std::fegetround();
  std::fesetround(direction);
  (([](auto& number) { asm volatile("" : "+m"(number)); })(numbers), ...);  // not known before
  const volatile T result = calculate(numbers...);
  std::fesetround(before);
  return result;
}

/// The nearest whole number that the type holds, by the direction of `round`; 0 for a NaN.
template <class Whole, class T>
Whole to_whole(T value, T (*round)(T)) {
  using Limits = std::numeric_limits<Whole>;
  const T whole = round(value);
  if (std::isnan(whole)) return 0;
  if (whole <= static_cast<T>(Limits::min())) return Limits::min();
  return whole >= static_cast<T>(Limits::max()) ? Limits::max() : static_cast<Whole>(whole);
}

}  // namespace rmsnorm::cpu_device

// Operations whose names end in the direction of rounding: nearest, to zero, up, down.
#define RMSNORM_ROUNDED(name, T, direction, parameters, result, ...) \
  inline T name parameters {                                         \
    return rmsnorm::cpu_device::rounded<direction, T>(               \
        +[] parameters -> T { return result; }, __VA_ARGS__);        \
  }
#define RMSNORM_ALL_ROUNDED(name, T, parameters, result, ...)                   \
  inline T name##_rn parameters {                                               \
    return result;                                                              \
  }                                                                             \
  RMSNORM_ROUNDED(name##_rz, T, FE_TOWARDZERO, parameters, result, __VA_ARGS__) \
  RMSNORM_ROUNDED(name##_ru, T, FE_UPWARD, parameters, result, __VA_ARGS__)     \
  RMSNORM_ROUNDED(name##_rd, T, FE_DOWNWARD, parameters, result, __VA_ARGS__)
#define RMSNORM_ARITHMETIC(f, d, fma, T)                      \
  RMSNORM_ALL_ROUNDED(__##f##add, T, (T a, T b), a + b, a, b) \
  RMSNORM_ALL_ROUNDED(__##f##sub, T, (T a, T b), a - b, a, b) \
  RMSNORM_ALL_ROUNDED(__##f##mul, T, (T a, T b), a* b, a, b)  \
  RMSNORM_ALL_ROUNDED(__##d##div, T, (T a, T b), a / b, a, b) \
  RMSNORM_ALL_ROUNDED(__##d##rcp, T, (T a), 1 / a, a)         \
  RMSNORM_ALL_ROUNDED(__##d##sqrt, T, (T a), std::sqrt(a), a) \
  RMSNORM_ALL_ROUNDED(__##fma, T, (T a, T b, T c), std::fma(a, b, c), a, b, c)
RMSNORM_ARITHMETIC(f, f, fmaf, float)
RMSNORM_ARITHMETIC(d, d, fma, double)
#undef RMSNORM_ARITHMETIC
#undef RMSNORM_ALL_ROUNDED
#undef RMSNORM_ROUNDED

#define RMSNORM_TO_WHOLE(from, T, to, Whole)                           \
  inline Whole __##from##2##to##_rn(T a) {                             \
    return rmsnorm::cpu_device::to_whole<Whole, T>(a, std::nearbyint); \
  }                                                                    \
  inline Whole __##from##2##to##_rz(T a) {                             \
    return rmsnorm::cpu_device::to_whole<Whole, T>(a, std::trunc);     \
  }                                                                    \
  inline Whole __##from##2##to##_ru(T a) {                             \
    return rmsnorm::cpu_device::to_whole<Whole, T>(a, std::ceil);      \
  }                                                                    \
  inline Whole __##from##2##to##_rd(T a) {                             \
    return rmsnorm::cpu_device::to_whole<Whole, T>(a, std::floor);     \
  }                                                                    \
  inline T __##to##2##from##_rn(Whole a) {                             \
    return static_cast<T>(a);                                          \
  }
RMSNORM_TO_WHOLE(float, float, int, int)
RMSNORM_TO_WHOLE(float, float, uint, unsigned)
RMSNORM_TO_WHOLE(float, float, ll, long long)
RMSNORM_TO_WHOLE(float, float, ull, unsigned long long)
RMSNORM_TO_WHOLE(double, double, int, int)
RMSNORM_TO_WHOLE(double, double, ll, long long)
#undef RMSNORM_TO_WHOLE

/// Functions of one number, and the words for it.
#define RMSNORM_OF_ONE(T, name, R, result) \
  inline R name(T a) {                     \
    return result;                         \
  }
#define RMSNORM_OF_FLOAT(name, result) RMSNORM_OF_ONE(float, name, float, result)
RMSNORM_OF_FLOAT(rsqrtf, 1 / std::sqrt(a))
RMSNORM_OF_FLOAT(__frsqrt_rn, static_cast<float>(1 / std::sqrt(double{a})))
RMSNORM_OF_FLOAT(rcbrtf, 1 / std::cbrt(a))
RMSNORM_OF_FLOAT(__expf, std::exp2(a * 1.44269504f))
RMSNORM_OF_FLOAT(__exp10f, std::exp2(a * 3.32192809f))
RMSNORM_OF_FLOAT(__log2f, std::log2(a))
RMSNORM_OF_FLOAT(__logf, __log2f(a) * 0.693147181f)
RMSNORM_OF_FLOAT(__log10f, __log2f(a) * 0.301029996f)
RMSNORM_OF_FLOAT(__sinf, std::sin(a))
RMSNORM_OF_FLOAT(__cosf, std::cos(a))
RMSNORM_OF_FLOAT(__tanf, std::tan(a))
RMSNORM_OF_FLOAT(__tanhf, std::tanh(a))
RMSNORM_OF_FLOAT(__saturatef, a > 0 ? std::min(a, 1.0f) : 0.0f)  // 0 for a NaN
RMSNORM_OF_ONE(double, rsqrt, double, 1 / std::sqrt(a))
RMSNORM_OF_ONE(double, __double2float_rn, float, static_cast<float>(a))
RMSNORM_OF_ONE(float, __float_as_uint, unsigned, std::bit_cast<unsigned>(a))
RMSNORM_OF_ONE(float, __float_as_int, int, std::bit_cast<int>(a))
RMSNORM_OF_ONE(unsigned, __uint_as_float, float, std::bit_cast<float>(a))
RMSNORM_OF_ONE(int, __int_as_float, float, std::bit_cast<float>(a))
RMSNORM_OF_ONE(double, __double_as_longlong, long long, std::bit_cast<long long>(a))
RMSNORM_OF_ONE(long long, __longlong_as_double, double, std::bit_cast<double>(a))
RMSNORM_OF_ONE(unsigned, __popc, int, std::popcount(a))
RMSNORM_OF_ONE(unsigned long long, __popcll, int, std::popcount(a))
RMSNORM_OF_ONE(int, __clz, int, std::countl_zero(static_cast<unsigned>(a)))
RMSNORM_OF_ONE(long long, __clzll, int, std::countl_zero(static_cast<unsigned long long>(a)))
RMSNORM_OF_ONE(int, __ffs, int, __builtin_ffs(a))
RMSNORM_OF_ONE(long long, __ffsll, int, __builtin_ffsll(a))
#undef RMSNORM_OF_FLOAT
#undef RMSNORM_OF_ONE

/// Of a divisor beyond 2^126, nothing is left.
inline float __fdividef(float a, float b) {
  constexpr float kMost = 0x1p126f;
  return std::abs(b) > kMost && !std::isinf(b) ? a * 0 : a * (1 / b);
}
inline float __powf(float a, float b) {
  return std::exp2(b * __log2f(a));
}
inline void __sincosf(float a, float* sine, float* cosine) {
  *sine = std::sin(a);
  *cosine = std::cos(a);
}
inline unsigned __brev(unsigned bits) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (bits >> i & 1) << (31 - i);
  return reversed;
}
inline unsigned long long __brevll(unsigned long long bits) {
  return std::uint64_t{__brev(static_cast<unsigned>(bits))} << 32 |
         __brev(static_cast<unsigned>(bits >> 32));
}
/// Four of the eight bytes of b:a, each by a digit of `selector`; the digit's 8 asks for the byte's
/// sign in all bits.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned digit = selector >> 4 * i;
    const auto byte = static_cast<std::uint8_t>(bytes >> 8 * (digit & 7));
    const unsigned chosen = (digit & 8) == 0 ? byte : (byte >> 7) * 0xffu;
    result |= chosen << 8 * i;
  }
  return result;
}
inline int __mul24(int a, int b) {
  return static_cast<int>((std::int64_t{a << 8} >> 8) * (std::int64_t{b << 8} >> 8));
}
inline unsigned __umul24(unsigned a, unsigned b) {
  return (a & 0xffffff) * (b & 0xffffff);
}
inline int __mulhi(int a, int b) {
  return static_cast<int>(std::int64_t{a} * b >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
/// The lower half of the 64 bits high:low, shifted right by `shift` modulo 32; the upper half,
/// shifted left.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32) | low) >> (shift % 32));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32) | low) << (shift % 32) >> 32);
}

/// Of any two numbers, also of different types.
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
