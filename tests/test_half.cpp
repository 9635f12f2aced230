/// \file
/// The two 16-bit types: every one of their values, and the rounding of floats to them.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/base/half.hpp"
#include "common/tensors/random.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm;

namespace {

/// A 16-bit type by its definition, and the conversions to test.
struct Type {
  const char* name;
  int mantissa_bits;
  int least_exponent;  ///< of a normal number
  std::uint16_t inf;   ///< its bits
  float (*to_float)(std::uint16_t);
  std::uint16_t (*from_float)(float);
};

constexpr Type kTypes[] = {
    {"fp16", 10, -14, 0x7c00, fp16_to_float, float_to_fp16},
    {"bf16", 7, -126, 0x7f80, bf16_to_float, float_to_bf16},
};

/// The value of 16 bits without the sign, not Inf nor NaN, as IEEE 754 defines it.
double value_of(const Type& type, std::uint16_t magnitude) {
  const int exponent = magnitude >> type.mantissa_bits;
  const int mantissa = magnitude & ((1 << type.mantissa_bits) - 1);
  const int leading = exponent == 0 ? 0 : 1 << type.mantissa_bits;
  const int step = type.least_exponent - type.mantissa_bits + (exponent == 0 ? 0 : exponent - 1);
  return std::ldexp(leading + mantissa, step);
}

/// The float that is nearest to a value: the tests' values are floats but for the last bit.
float above(double value) {
  const auto nearest = static_cast<float>(value);
  return nearest > value ? nearest : std::nextafter(nearest, INFINITY);
}
float below(double value) {
  const auto nearest = static_cast<float>(value);
  return nearest < value ? nearest : std::nextafter(nearest, -INFINITY);
}

}  // namespace

TEST_CASE("each pattern of a 16-bit type has the value of IEEE 754 and keeps its bits as a float") {
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto magnitude = static_cast<std::uint16_t>(bits & 0x7fff);
      const float value = type.to_float(static_cast<std::uint16_t>(bits));
      REQUIRE(std::signbit(value) == (bits >= 0x8000));
      if (magnitude > type.inf) {
        REQUIRE(std::isnan(value));
      } else {
        REQUIRE(std::abs(value) == (magnitude == type.inf ? INFINITY : value_of(type, magnitude)));
      }
      REQUIRE(type.from_float(value) == (magnitude > type.inf ? kHalfNan : bits));
    }
    CHECK(type.from_float(std::numeric_limits<float>::signaling_NaN()) == kHalfNan);
    CHECK(type.from_float(float_of(0xff800001)) == kHalfNan);
  }
}

TEST_CASE("between two values of a 16-bit type a float goes to the nearer and a tie to the even") {
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    for (std::uint16_t low = 0; low < type.inf; ++low) {
      const auto high = static_cast<std::uint16_t>(low + 1);
      // What comes after the largest value would be its neighbour, if there were one more exponent.
      const double middle = (value_of(type, low) + value_of(type, high)) / 2;
      const std::uint16_t even = low % 2 == 0 ? low : high;
      CAPTURE(low);
      for (const std::uint16_t sign : {0, 0x8000}) {
        const auto round = [&](float magnitude) {
          return type.from_float(sign == 0 ? magnitude : -magnitude);
        };
        REQUIRE(round(static_cast<float>(middle)) == (sign | even));
        REQUIRE(round(below(middle)) == (sign | low));
        REQUIRE(round(above(middle)) == (sign | high));
      }
    }
    for (const float sign : {1.0f, -1.0f}) {
      CHECK(type.to_float(type.from_float(sign * INFINITY)) == sign * INFINITY);
      CHECK(
          type.to_float(type.from_float(sign * std::numeric_limits<float>::max())) ==
          sign * INFINITY);
    }
  }
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

TEST_CASE("pairs of 16-bit values lie and convert as CUDA's do") {
  CHECK((sizeof(__half) == 2 && alignof(__half) == 2));
  CHECK((sizeof(__nv_bfloat16) == 2 && alignof(__nv_bfloat16) == 2));
  CHECK((sizeof(__half2) == 4 && alignof(__half2) == 4));
  CHECK((sizeof(__nv_bfloat162) == 4 && alignof(__nv_bfloat162) == 4));

  const __half2 fp16 = __floats2half2_rn(1.5f, -65520.0f);
  CHECK(__half22float2(fp16).x == 1.5f);
  CHECK(__half22float2(fp16).y == -INFINITY);
  CHECK((__low2float(fp16) == 1.5f && __high2float(fp16) == -INFINITY));
  CHECK(__half_as_ushort(__float22half2_rn(make_float2(2, 3)).y) == 0x4200);
  CHECK(__half2float(__halves2half2(__float2half(4), __float2half(5)).x) == 4);
  CHECK(__half2float(__float2half2_rn(0.1f).y) == fp16_to_float(float_to_fp16(0.1f)));

  const __nv_bfloat162 bf16 = __floats2bfloat162_rn(1.5f, -65520.0f);
  CHECK(__bfloat1622float2(bf16).x == 1.5f);
  CHECK(__bfloat1622float2(bf16).y == -65536);
  CHECK((__low2float(bf16) == 1.5f && __high2float(bf16) == -65536));
  CHECK(__bfloat16_as_ushort(__float22bfloat162_rn(make_float2(2, 3)).y) == 0x4040);
  CHECK(__bfloat162float(__halves2bfloat162(__float2bfloat16(4), __float2bfloat16(5)).x) == 4);
  CHECK(__bfloat162float(__float2bfloat162_rn(0.1f).y) == bf16_to_float(float_to_bf16(0.1f)));
}
#endif
