/// \file
/// The types of 16 and of 8 bits: every one of their values, and what is rounded to them. That a
/// GPU rounds to 8 bits in the same way, common/cpu_device/tests/arithmetic has compared.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/base/e8m0.hpp"
#include "common/base/fp8.hpp"
#include "common/base/half.hpp"
#include "common/tensors/random.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm;

namespace {

/// A type by its definition, and the conversions to test. What comes behind the largest value is
/// Inf, or NaN where there is no Inf.
struct Type {
  const char* name;
  int sign;  ///< its bit
  int mantissa_bits;
  int least_exponent;  ///< of a normal number
  int largest;         ///< the last finite value's bits
  bool has_inf;
  double (*to_double)(int bits);
  int (*rounded)(double value);
  double (*next)(double from, double to);  ///< of the numbers that are rounded
};

template <Fp8 kType>
constexpr Type fp8_type(const char* name, int least_exponent, bool has_inf) {
  return {
      name,
      0x80,
      mantissa_bits(kType),
      least_exponent,
      largest_fp8(kType),
      has_inf,
      [](int bits) -> double { return fp8_to_float(kType, static_cast<std::uint8_t>(bits)); },
      [](double value) -> int { return to_fp8(kType, value, Overflow::leaves); },
      [](double from, double to) { return std::nextafter(from, to); }};
}

template <float to_float(std::uint16_t), std::uint16_t from_float(float)>
constexpr Type half_type(const char* name, int mantissa_bits, int least_exponent, int largest) {
  return {
      name,
      0x8000,
      mantissa_bits,
      least_exponent,
      largest,
      true,
      [](int bits) -> double { return to_float(static_cast<std::uint16_t>(bits)); },
      [](double value) -> int { return from_float(static_cast<float>(value)); },
      [](double from, double to) -> double {
        return std::nextafter(static_cast<float>(from), static_cast<float>(to));
      }};
}

constexpr Type kTypes[] = {
    half_type<fp16_to_float, float_to_fp16>("fp16", 10, -14, 0x7bff),
    half_type<bf16_to_float, float_to_bf16>("bf16", 7, -126, 0x7f7f),
    fp8_type<Fp8::e4m3>("e4m3", -6, false),
    fp8_type<Fp8::e5m2>("e5m2", -14, true),
};

/// The value of bits without the sign, as if all of them were numbers.
double value_of(const Type& type, int magnitude) {
  const int exponent = magnitude >> type.mantissa_bits;
  const int mantissa = magnitude & ((1 << type.mantissa_bits) - 1);
  const int leading = exponent == 0 ? 0 : 1 << type.mantissa_bits;
  const int step = type.least_exponent - type.mantissa_bits + (exponent == 0 ? 0 : exponent - 1);
  return std::ldexp(leading + mantissa, step);
}

}  // namespace

TEST_CASE("each pattern of 16 or 8 bits has its value, which becomes the same bits again") {
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    for (int bits = 0; bits < 2 * type.sign; ++bits) {
      const int magnitude = bits & ~type.sign;
      const double value = type.to_double(bits);
      CAPTURE(bits);
      REQUIRE(std::signbit(value) == (bits >= type.sign));
      const bool is_inf = type.has_inf && magnitude == type.largest + 1;
      if (is_inf || magnitude <= type.largest) {
        REQUIRE(std::abs(value) == (is_inf ? INFINITY : value_of(type, magnitude)));
        REQUIRE(type.rounded(value) == bits);
      } else {
        REQUIRE(std::isnan(value));
        REQUIRE(type.rounded(value) == type.sign - 1);  // the NaN that CUDA writes
      }
    }
  }
  for (const auto from_float : {float_to_fp16, float_to_bf16}) {
    CHECK(from_float(std::numeric_limits<float>::signaling_NaN()) == kHalfNan);
    CHECK(from_float(float_of(0xff800001)) == kHalfNan);
    CHECK(from_float(std::numeric_limits<float>::max()) == from_float(INFINITY));
  }
}

TEST_CASE("between two values of 16 or 8 bits a number goes to the nearer and a tie to the even") {
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    for (int low = 0; low <= type.largest; ++low) {
      // What comes after the largest value would be its neighbour, if there were room for it.
      const double middle = (value_of(type, low) + value_of(type, low + 1)) / 2;
      CAPTURE(low);
      const int even = low + low % 2;
      for (const int sign : {1, -1}) {
        const auto rounded = [&](double size) {
          const int bits = type.rounded(sign * size);
          return sign > 0 ? bits : bits ^ type.sign;
        };
        REQUIRE(rounded(middle) == even);
        REQUIRE(rounded(type.next(middle, 0)) == low);
        REQUIRE(rounded(type.next(middle, INFINITY)) == low + 1);
      }
    }
  }
  // 464 is the middle of 448 and what would be 480.
  CHECK(to_fp8(Fp8::e4m3, 464, Overflow::leaves) == 0x7e);
  CHECK(to_fp8(Fp8::e4m3, std::nextafter(464.0, 500.0), Overflow::leaves) == 0x7f);
  CHECK(to_fp8(Fp8::e4m3, 1e300, Overflow::saturates) == 0x7e);
  CHECK(to_fp8(Fp8::e4m3, -INFINITY, Overflow::saturates) == 0xfe);
  CHECK(to_fp8(Fp8::e5m2, 61440, Overflow::leaves) == 0x7c);
  CHECK(to_fp8(Fp8::e5m2, std::nextafter(61440.0, 0.0), Overflow::leaves) == 0x7b);
  CHECK(to_fp8(Fp8::e5m2, INFINITY, Overflow::saturates) == 0x7b);
  CHECK(to_fp8(Fp8::e5m2, -0.0, Overflow::saturates) == 0x80);
}

TEST_CASE(
    "each exponent of 8 bits is its power of two, and what is between two becomes the larger") {
  for (int bits = 0; bits <= kLargestE8m0; ++bits) {
    const auto value = static_cast<float>(std::ldexp(1, bits - 127));
    CAPTURE(bits);
    REQUIRE(e8m0_to_float(static_cast<std::uint8_t>(bits)) == value);
    REQUIRE(to_e8m0(value) == bits);
    REQUIRE(to_e8m0(std::nextafter(value, 0.0f)) == bits);  // or less than the least
    REQUIRE(to_e8m0(std::nextafter(value, INFINITY)) == std::min<int>(bits + 1, kLargestE8m0));
  }
  CHECK(to_e8m0(0) == 0);
  CHECK(to_e8m0(-1) == 0);
  CHECK(to_e8m0(INFINITY) == kLargestE8m0);
  CHECK(to_e8m0(NAN) == kE8m0Nan);
  CHECK(std::isnan(e8m0_to_float(kE8m0Nan)));
}

// On the host, CUDA has all of these conversions from 12.2 on.
#if CUDART_VERSION == 0 || CUDART_VERSION >= 12020  // 0: the CPU device
TEST_CASE("CUDA's own conversions on the host give the same bits") {
  const auto same = [](float value) {
    REQUIRE(__half_as_ushort(__float2half_rn(value)) == float_to_fp16(value));
    REQUIRE(__bfloat16_as_ushort(__float2bfloat16_rn(value)) == float_to_bf16(value));
  };
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<unsigned short>(bits);
    const float of_fp16 = __half2float(__ushort_as_half(half));
    const float of_bf16 = __bfloat162float(__ushort_as_bfloat16(half));
    REQUIRE(
        (std::isnan(of_fp16) ? std::isnan(fp16_to_float(half))
                             : bits_of(of_fp16) == bits_of(fp16_to_float(half))));
    REQUIRE(
        (std::isnan(of_bf16) ? std::isnan(bf16_to_float(half))
                             : bits_of(of_bf16) == bits_of(bf16_to_float(half))));
  }
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    same(float_of(static_cast<std::uint32_t>(random_bits(16, i))));
  }
}

TEST_CASE("values of 16 and 8 bits lie and convert as CUDA's do, alone, in twos and in fours") {
  CHECK((sizeof(__half) == 2 && sizeof(__nv_bfloat16) == 2 && alignof(__nv_bfloat16) == 2));
  CHECK((sizeof(__half2) == 4 && alignof(__half2) == 4 && alignof(__nv_bfloat162) == 4));
  CHECK((sizeof(__nv_fp8_e4m3) == 1 && sizeof(__nv_fp8x2_e4m3) == 2));
  CHECK((sizeof(__nv_fp8x4_e5m2) == 4 && alignof(__nv_fp8x4_e5m2) == 4));

  const __half2 fp16 = __floats2half2_rn(1.5f, -65520.0f);
  CHECK((__half22float2(fp16).x == 1.5f && __half22float2(fp16).y == -INFINITY));
  CHECK((__low2float(fp16) == 1.5f && __high2float(fp16) == -INFINITY));
  CHECK(__half_as_ushort(__float22half2_rn(make_float2(2, 3)).y) == 0x4200);
  CHECK(__half2float(__halves2half2(__float2half(4), __float2half(5)).x) == 4);
  const __nv_bfloat162 bf16 = __floats2bfloat162_rn(1.5f, -65520.0f);
  CHECK((__bfloat1622float2(bf16).x == 1.5f && __bfloat1622float2(bf16).y == -65536));
  CHECK((__low2float(bf16) == 1.5f && __high2float(bf16) == -65536));
  CHECK(__bfloat16_as_ushort(__float22bfloat162_rn(make_float2(2, 3)).y) == 0x4040);
  CHECK(__bfloat162float(__halves2bfloat162(__float2bfloat16(4), __float2bfloat16(5)).x) == 4);

  CHECK((__nv_fp8_e4m3(1.0f).__x == 0x38 && __nv_fp8_e5m2(1.0).__x == 0x3c));
  CHECK(__nv_fp8_e4m3(1000).__x == 0x7e);  // it saturates
  CHECK(__nv_fp8_e4m3(__float2half(-0.5f)).__x == 0xb0);
  CHECK(__nv_fp8_e4m3(__float2bfloat16(-0.5f)).__x == 0xb0);
  CHECK(static_cast<float>(__nv_fp8_e4m3(0.3f)) == 0.3125f);
  CHECK(__half2float(static_cast<__half>(__nv_fp8_e4m3(448.0f))) == 448);
  const __nv_fp8x2_e4m3 two(make_float2(1, -2));
  CHECK((two.__x == 0xc038 && static_cast<float2>(two).y == -2));
  CHECK(__nv_fp8x2_e5m2(__floats2half2_rn(1, -2)).__x == 0xc03c);
  CHECK(__nv_fp8x2_e5m2(__floats2bfloat162_rn(1, -2)).__x == 0xc03c);
  const __nv_fp8x4_e4m3 four(make_float4(1, -2, 448, 0.25f));
  CHECK((four.__x == 0x287ec038 && static_cast<float4>(four).z == 448));
  CHECK(__nv_fp8x4_e4m3(__floats2half2_rn(1, -2), __floats2half2_rn(448, 0.25f)).__x == four.__x);
}
#endif
