#pragma once
/// \file
/// CUDA's functions of numbers that C++ does not have. The fast ones take a GPU's way, by powers
/// and logarithms of 2 in fp32: where that loses digits, they are lost here as well.

#include <math.h>  // also outside of std, as CUDA has them

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

namespace rmsnorm::cpu_device {

/// A GPU's calculations in fp32 give one NaN, whatever NaN they take.
inline float one_nan(float value) {
  constexpr std::uint32_t kNan = 0x7fffffff;
  return std::isnan(value) ? std::bit_cast<float>(kNan) : value;
}
/// In fp64, they pass it on.
inline double one_nan(double value) {
  return value;
}

/// .ftz: a zero for a subnormal number.
inline float flushed(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

/// The smaller of two numbers; that of a number and a NaN is the number. -0 is smaller than 0.
template <std::floating_point T>
T least(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return one_nan(std::isnan(a) ? b : a);
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
/// The larger.
template <std::floating_point T>
T greatest(T a, T b) {
  return one_nan(-least(-a, -b));
}

/// ex2, in the GPU's unit for special functions. Its other functions have fewer digits than fp32.
inline float exp2_of_unit(float a) {
  return one_nan(std::exp2(a));
}
/// lg2: next to 1, a multiple of 2^-22.
inline float log2_of_unit(float a) {
  constexpr float kSteps = 0x1p22f;
  const float result = std::log2(a);
  return one_nan(std::abs(result) < 1 ? std::round(result * kSteps) / kSteps : result);
}
/// tanh: with 17 binary digits.
inline float tanh_of_unit(float a) {
  constexpr std::uint32_t kStep = 1 << 7;
  if (std::isnan(a)) return one_nan(a);
  const auto bits = std::bit_cast<std::uint32_t>(std::tanh(a)) + kStep / 2;
  return std::abs(a) < 0x1p-9f ? a : std::bit_cast<float>(bits / kStep * kStep);
}
/// The angle of sin and cos, of which the unit has full turns: a product in fp32 that is cut off,
/// and 25 binary digits behind its point. Of a small angle, and of a large one, few are left.
inline double cut_angle(float angle) {
  constexpr double kSteps = 1 << 25;
  const double turns = double{angle} * 0.15915494f;
  float cut = static_cast<float>(turns);
  if (std::abs(cut) > std::abs(turns)) cut = std::nextafter(cut, 0.0f);
  return std::trunc(std::fmod(cut, 1.0f) * kSteps) / kSteps * 2 * std::numbers::pi;
}
/// sin
inline float sin_of_unit(float a) {
  return one_nan(static_cast<float>(std::sin(cut_angle(a))));
}
/// cos
inline float cos_of_unit(float a) {
  return one_nan(static_cast<float>(std::cos(cut_angle(a))));
}
/// div.approx: of a divisor beyond 2^126, nothing is left.
inline float div_of_unit(float a, float b) {
  constexpr float kMost = 0x1p126f;
  return one_nan(std::abs(b) > kMost && !std::isinf(b) ? a * std::copysign(0.0f, b) : a / b);
}

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

/// The nearest whole number that the type holds, by the direction of `round`. For a NaN, 0, or with
/// 64 bits on either side its highest bit.
template <class Whole, class T>
Whole to_whole(T value, T (*round)(T)) {
  using Limits = std::numeric_limits<Whole>;
  const T whole = round(value);
  if (std::isnan(whole)) {
    constexpr int kHighest = sizeof(Whole) * 8 - 1;
    return sizeof(Whole) + sizeof(T) == 8 ? 0 : static_cast<Whole>(std::uint64_t{1} << kHighest);
  }
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
#define RMSNORM_ONE_NAN(name, T, parameters, result, ...) \
  RMSNORM_ALL_ROUNDED(name, T, parameters, rmsnorm::cpu_device::one_nan(result), __VA_ARGS__)
#define RMSNORM_ARITHMETIC(f, d, fma, T)                  \
  RMSNORM_ONE_NAN(__##f##add, T, (T a, T b), a + b, a, b) \
  RMSNORM_ONE_NAN(__##f##sub, T, (T a, T b), a - b, a, b) \
  RMSNORM_ONE_NAN(__##f##mul, T, (T a, T b), a* b, a, b)  \
  RMSNORM_ONE_NAN(__##d##div, T, (T a, T b), a / b, a, b) \
  RMSNORM_ONE_NAN(__##d##rcp, T, (T a), 1 / a, a)         \
  RMSNORM_ONE_NAN(__##d##sqrt, T, (T a), std::sqrt(a), a) \
  RMSNORM_ONE_NAN(__##fma, T, (T a, T b, T c), std::fma(a, b, c), a, b, c)
RMSNORM_ARITHMETIC(f, f, fmaf, float)
RMSNORM_ARITHMETIC(d, d, fma, double)
RMSNORM_ALL_ROUNDED(__double2float, float, (double a), static_cast<float>(a), a)
#undef RMSNORM_ARITHMETIC
#undef RMSNORM_ONE_NAN
#undef RMSNORM_ALL_ROUNDED
#undef RMSNORM_ROUNDED

/// Functions of one number or of two, and the words for it.
#define RMSNORM_OF_ONE(T, name, R, ...) \
  inline R name(T a) {                  \
    return __VA_ARGS__;                 \
  }
#define RMSNORM_OF_TWO(T, name, R, ...) \
  inline R name(T a, T b) {             \
    return __VA_ARGS__;                 \
  }

#define RMSNORM_ROUNDED_BY(function, from, T, to, Whole, direction) \
  RMSNORM_OF_ONE(                                                   \
      T, __##from##2##to##_##direction, Whole,                      \
      rmsnorm::cpu_device::to_whole<Whole, T>(a, function))
#define RMSNORM_TO_WHOLE(from, T, to, Whole)                 \
  RMSNORM_ROUNDED_BY(std::nearbyint, from, T, to, Whole, rn) \
  RMSNORM_ROUNDED_BY(std::trunc, from, T, to, Whole, rz)     \
  RMSNORM_ROUNDED_BY(std::ceil, from, T, to, Whole, ru)      \
  RMSNORM_ROUNDED_BY(std::floor, from, T, to, Whole, rd)     \
  RMSNORM_OF_ONE(Whole, __##to##2##from##_rn, T, static_cast<T>(a))
RMSNORM_TO_WHOLE(float, float, int, int)
RMSNORM_TO_WHOLE(float, float, uint, unsigned)
RMSNORM_TO_WHOLE(float, float, ll, long long)
RMSNORM_TO_WHOLE(float, float, ull, unsigned long long)
RMSNORM_TO_WHOLE(double, double, int, int)
RMSNORM_TO_WHOLE(double, double, ll, long long)
#undef RMSNORM_TO_WHOLE
#undef RMSNORM_ROUNDED_BY

#define RMSNORM_OF_FLOAT(name, result) RMSNORM_OF_ONE(float, name, float, result)
RMSNORM_OF_FLOAT(rsqrtf, rmsnorm::cpu_device::one_nan(1 / std::sqrt(a)))
RMSNORM_OF_FLOAT(
    __frsqrt_rn, rmsnorm::cpu_device::one_nan(static_cast<float>(1 / std::sqrt(double{a}))))
RMSNORM_OF_FLOAT(rcbrtf, 1 / std::cbrt(a))
RMSNORM_OF_FLOAT(__expf, rmsnorm::cpu_device::exp2_of_unit(a * 1.44269504f))
RMSNORM_OF_FLOAT(__exp10f, rmsnorm::cpu_device::exp2_of_unit(a * 3.32192809f))
RMSNORM_OF_FLOAT(__log2f, rmsnorm::cpu_device::log2_of_unit(a))
RMSNORM_OF_FLOAT(__logf, rmsnorm::cpu_device::one_nan(__log2f(a) * 0.693147181f))
RMSNORM_OF_FLOAT(__log10f, rmsnorm::cpu_device::one_nan(__log2f(a) * 0.301029996f))
RMSNORM_OF_FLOAT(__sinf, rmsnorm::cpu_device::sin_of_unit(a))
RMSNORM_OF_FLOAT(__cosf, rmsnorm::cpu_device::cos_of_unit(a))
RMSNORM_OF_FLOAT(__tanf, rmsnorm::cpu_device::div_of_unit(__sinf(a), __cosf(a)))
RMSNORM_OF_FLOAT(__tanhf, rmsnorm::cpu_device::tanh_of_unit(a))
RMSNORM_OF_FLOAT(__saturatef, a > 0 ? std::min(a, 1.0f) : 0.0f)  // 0 for a NaN
RMSNORM_OF_ONE(double, rsqrt, double, 1 / std::sqrt(a))
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

RMSNORM_OF_TWO(float, __fdividef, float, rmsnorm::cpu_device::div_of_unit(a, b))
RMSNORM_OF_TWO(float, __powf, float, rmsnorm::cpu_device::exp2_of_unit(__log2f(a) * b))
inline void __sincosf(float a, float* sine, float* cosine) {
  *sine = __sinf(a);
  *cosine = __cosf(a);
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
/// Four of the eight bytes of b:a, each by three bits of `selector`.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned digit = selector >> 4 * i;
    result |= unsigned{static_cast<std::uint8_t>(bytes >> 8 * (digit & 7))} << 8 * i;
  }
  return result;
}
RMSNORM_OF_TWO(
    int, __mul24, int, static_cast<int>((std::int64_t{a << 8} >> 8) * (std::int64_t{b << 8} >> 8)))
RMSNORM_OF_TWO(unsigned, __umul24, unsigned, (a & 0xffffff) * (b & 0xffffff))
RMSNORM_OF_TWO(int, __mulhi, int, static_cast<int>(std::int64_t{a} * b >> 32))
RMSNORM_OF_TWO(unsigned, __umulhi, unsigned, static_cast<unsigned>(std::uint64_t{a} * b >> 32))
/// The lower half of the 64 bits high:low, shifted right by `shift` modulo 32; the upper half,
/// shifted left.
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32) | low) >> (shift % 32));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32) | low) << (shift % 32) >> 32);
}

/// Of any two numbers, also of different types. Of a number and a NaN, the number.
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return rmsnorm::cpu_device::least<T>(a, b);
  } else {
    return b < a ? b : a;
  }
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return rmsnorm::cpu_device::greatest<T>(a, b);
  } else {
    return a < b ? b : a;
  }
}
