/// \file
/// The two 8-bit types: every one of their values, and what is rounded to them.

#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/fp8.hpp"
#include "common/tensors/random.hpp"
#include "tests/catch.hpp"

using namespace rmsnorm;

namespace {

/// An 8-bit type by its definition.
struct Type {
  Fp8 format;
  const char* name;
  int mantissa_bits;
  int least_exponent;    ///< of a normal number
  std::uint8_t largest;  ///< the last finite value's bits
  bool has_inf;          ///< whether what comes next is Inf, or else NaN
};

constexpr Type kTypes[] = {
    {Fp8::e4m3, "e4m3", 3, -6, 0x7e, false},
    {Fp8::e5m2, "e5m2", 2, -14, 0x7b, true},
};

/// The value of 8 bits without the sign, as if all of them were numbers.
double value_of(const Type& type, int magnitude) {
  const int exponent = magnitude >> type.mantissa_bits;
  const int mantissa = magnitude & ((1 << type.mantissa_bits) - 1);
  const int leading = exponent == 0 ? 0 : 1 << type.mantissa_bits;
  const int step = type.least_exponent - type.mantissa_bits + (exponent == 0 ? 0 : exponent - 1);
  return std::ldexp(leading + mantissa, step);
}

/// The nearest of a type's values, found among all of them; of two, the one with even bits. The
/// largest one has a neighbour, which is out of range.
class Nearest {
 public:
  explicit Nearest(const Type& type) : type_(type) {
    for (int magnitude = 0; magnitude <= type.largest + 1; ++magnitude) {
      values_.push_back(value_of(type, magnitude));
    }
  }
  int operator()(double value, Overflow overflow) const {
    if (std::isnan(value)) return 0x7f;
    const int sign = std::signbit(value) ? 0x80 : 0;
    const double size = std::abs(value);
    const auto above = std::upper_bound(values_.begin(), values_.end(), size);
    auto code = static_cast<int>(above - values_.begin()) - 1;
    if (above != values_.end()) {
      const double middle = (values_[code] + values_[code + 1]) / 2;
      if (size > middle || (size == middle && code % 2 != 0)) ++code;
    }
    if (code <= type_.largest) return sign | code;
    return sign | (overflow == Overflow::saturates ? type_.largest : type_.has_inf ? 0x7c : 0x7f);
  }

 private:
  const Type& type_;
  std::vector<double> values_;
};

/// Many roundings, without the cost of a CHECK for each.
struct Sweep {
  int wrong = 0;
  void compare(int got, int expected, double value) {
    if (got == expected || wrong++ > 0) return;
    CAPTURE(value);
    CHECK(got == expected);
  }
};

constexpr Overflow kOverflows[] = {Overflow::saturates, Overflow::leaves};

}  // namespace

TEST_CASE("each pattern of an 8-bit type has its value and keeps its bits as a float") {
  CHECK(value_of(kTypes[0], 0x7e) == 448);
  CHECK(value_of(kTypes[1], 0x7b) == 57344);
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    for (int bits = 0; bits < 0x100; ++bits) {
      const int magnitude = bits & 0x7f;
      const float value = fp8_to_float(type.format, static_cast<std::uint8_t>(bits));
      CAPTURE(bits);
      CHECK(std::signbit(value) == (bits >= 0x80));
      if (magnitude <= type.largest) {
        CHECK(std::abs(value) == value_of(type, magnitude));
        CHECK(to_fp8(type.format, value, Overflow::leaves) == bits);
      } else if (type.has_inf && magnitude == 0x7c) {
        CHECK(std::abs(value) == INFINITY);
        CHECK(to_fp8(type.format, value, Overflow::leaves) == bits);
      } else {
        CHECK(std::isnan(value));
        CHECK(to_fp8(type.format, value, Overflow::leaves) == 0x7f);
      }
    }
  }
}

TEST_CASE("every half and every bf16 and a sweep of floats goes to the nearest of 8 bits") {
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    const Nearest nearest(type);
    Sweep sweep;
    for (const Overflow overflow : kOverflows) {
      const auto check = [&](float value) {
        sweep.compare(to_fp8(type.format, value, overflow), nearest(value, overflow), value);
      };
      for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
        check(fp16_to_float(static_cast<std::uint16_t>(upper)));
        // A bf16 and the middle of two have the bits that decide; a last bit more breaks a tie.
        for (const std::uint32_t lower : {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff}) {
          check(float_of(upper << 16 | lower));
        }
      }
    }
    CHECK(sweep.wrong == 0);
  }
}

TEST_CASE("between two values of 8 bits a double is rounded once, and a tie goes to the even") {
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    for (int low = 0; low <= type.largest; ++low) {
      const double middle = (value_of(type, low) + value_of(type, low + 1)) / 2;
      const auto round = [&](double value) { return to_fp8(type.format, value, Overflow::leaves); };
      const int high = low < type.largest ? low + 1 : type.has_inf ? 0x7c : 0x7f;
      CAPTURE(low);
      CHECK(round(middle) == (low % 2 == 0 ? low : high));
      CHECK(round(std::nextafter(middle, 0)) == low);
      CHECK(round(std::nextafter(middle, INFINITY)) == high);
      CHECK(round(-std::nextafter(middle, 0)) == (0x80 | low));
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

// On the host, CUDA converts bf16 from 12.2 on.
#if CUDART_VERSION == 0 || CUDART_VERSION >= 12020  // 0: the CPU device
TEST_CASE("CUDA's own conversions to and from 8 bits on the host give the same") {
  const auto raw_half = [](std::uint32_t bits) {
    __half_raw raw;
    raw.x = static_cast<unsigned short>(bits);
    return raw;
  };
  const auto raw_bf16 = [](std::uint32_t bits) {
    __nv_bfloat16_raw raw;
    raw.x = static_cast<unsigned short>(bits);
    return raw;
  };
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    const auto interpretation = type.format == Fp8::e4m3 ? __NV_E4M3 : __NV_E5M2;
    for (const Overflow overflow : kOverflows) {
      const auto saturation = overflow == Overflow::saturates ? __NV_SATFINITE : __NV_NOSAT;
      Sweep sweep;
      const auto same = [&](int got, double value) {
        sweep.compare(got, to_fp8(type.format, value, overflow), value);
      };
      for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        same(
            __nv_cvt_halfraw_to_fp8(raw_half(bits), saturation, interpretation),
            fp16_to_float(half));
        same(
            __nv_cvt_bfloat16raw_to_fp8(raw_bf16(bits), saturation, interpretation),
            bf16_to_float(half));
        for (const std::uint32_t lower : {0x0001, 0x7fff, 0x8000, 0x8001}) {
          const float value = float_of(bits << 16 | lower);
          same(__nv_cvt_float_to_fp8(value, saturation, interpretation), value);
        }
      }
      for (std::uint64_t i = 0; i < 1'000'000; ++i) {
        const float value = float_of(static_cast<std::uint32_t>(random_bits(8, i)));
        same(__nv_cvt_float_to_fp8(value, saturation, interpretation), value);
        if (std::isnan(value)) continue;  // it has a sign and a mantissa as a double
        const double more = value * (1 + 0x1p-40);
        same(__nv_cvt_double_to_fp8(more, saturation, interpretation), more);
      }
      CHECK(sweep.wrong == 0);
      // The first of two is the lower byte.
      const int low = to_fp8(type.format, 1e6, overflow);
      const int high = to_fp8(type.format, -0.3, overflow);
      const int pair = low | high << 8;
      const float2 floats = {1e6f, -0.3f};
      const double2 doubles = {1e6, -0.3};
      const __nv_bfloat162 bf16 = __floats2bfloat162_rn(1e6f, -0.3f);
      CHECK(__nv_cvt_float2_to_fp8x2(floats, saturation, interpretation) == pair);
      CHECK(__nv_cvt_double2_to_fp8x2(doubles, saturation, interpretation) == pair);
      CHECK(
          __nv_cvt_bfloat16raw2_to_fp8x2(
              static_cast<__nv_bfloat162_raw>(bf16), saturation, interpretation) == pair);
      const __half2 halves = __floats2half2_rn(60000, -0.3f);
      const int of_halves = to_fp8(type.format, 60000, overflow) | high << 8;
      CHECK(
          __nv_cvt_halfraw2_to_fp8x2(
              static_cast<__half2_raw>(halves), saturation, interpretation) == of_halves);
    }
    for (int bits = 0; bits < 0x100; ++bits) {
      const float value = fp8_to_float(type.format, static_cast<std::uint8_t>(bits));
      const auto code = static_cast<__nv_fp8_storage_t>(bits);
      const int half = std::isnan(value) ? 0x7fff : float_to_fp16(value);
      CAPTURE(bits);
      CHECK(__nv_cvt_fp8_to_halfraw(code, interpretation).x == half);
      const auto two = static_cast<__nv_fp8x2_storage_t>(code << 8 | 0x38);
      CHECK(__nv_cvt_fp8x2_to_halfraw2(two, interpretation).y == half);
      CHECK(
          __nv_cvt_fp8x2_to_halfraw2(two, interpretation).x ==
          float_to_fp16(fp8_to_float(type.format, 0x38)));
    }
  }
  // A NaN that is a double keeps its sign, and of e5m2 two bits.
  const double nan = -std::numeric_limits<double>::quiet_NaN();
  CHECK(__nv_cvt_double_to_fp8(nan, __NV_SATFINITE, __NV_E4M3) == 0xff);
  CHECK(__nv_cvt_double_to_fp8(nan, __NV_SATFINITE, __NV_E5M2) == 0xfe);
  CHECK(__nv_cvt_float_to_fp8(static_cast<float>(nan), __NV_SATFINITE, __NV_E4M3) == 0x7f);
}

TEST_CASE("values of 8 bits lie and convert as CUDA's do, alone and in twos and in fours") {
  CHECK((sizeof(__nv_fp8_e4m3) == 1 && sizeof(__nv_fp8_e5m2) == 1));
  CHECK((sizeof(__nv_fp8x2_e4m3) == 2 && alignof(__nv_fp8x2_e4m3) == 2));
  CHECK((sizeof(__nv_fp8x4_e5m2) == 4 && alignof(__nv_fp8x4_e5m2) == 4));

  CHECK(__nv_fp8_e4m3(1.0f).__x == 0x38);
  CHECK(__nv_fp8_e5m2(1.0).__x == 0x3c);
  CHECK(__nv_fp8_e4m3(1000).__x == 0x7e);  // it saturates
  CHECK(__nv_fp8_e4m3(__float2half(-0.5f)).__x == 0xb0);
  CHECK(__nv_fp8_e4m3(__float2bfloat16(-0.5f)).__x == 0xb0);
  CHECK(static_cast<float>(__nv_fp8_e4m3(0.3f)) == 0.3125f);
  CHECK(static_cast<double>(__nv_fp8_e5m2(0.3f)) == 0.3125);
  CHECK(__half2float(static_cast<__half>(__nv_fp8_e4m3(448.0f))) == 448);
  CHECK(__bfloat162float(static_cast<__nv_bfloat16>(__nv_fp8_e5m2(-3.0f))) == -3);
  CHECK((static_cast<bool>(__nv_fp8_e4m3(0x1p-9f)) && !static_cast<bool>(__nv_fp8_e4m3(-0.0f))));

  const __nv_fp8x2_e4m3 two(make_float2(1, -2));
  CHECK(two.__x == 0xc038);
  CHECK((static_cast<float2>(two).x == 1 && static_cast<float2>(two).y == -2));
  CHECK(__half22float2(static_cast<__half2>(two)).y == -2);
  CHECK(__nv_fp8x2_e5m2(__floats2half2_rn(1, -2)).__x == 0xc03c);
  CHECK(__nv_fp8x2_e5m2(__floats2bfloat162_rn(1, -2)).__x == 0xc03c);

  const __nv_fp8x4_e4m3 four(make_float4(1, -2, 448, 0.25f));
  CHECK(four.__x == 0x287ec038);
  const auto back = static_cast<float4>(four);
  CHECK((back.x == 1 && back.y == -2 && back.z == 448 && back.w == 0.25f));
  CHECK(__nv_fp8x4_e4m3(__floats2half2_rn(1, -2), __floats2half2_rn(448, 0.25f)).__x == four.__x);
  CHECK(
      __nv_fp8x4_e4m3(__floats2bfloat162_rn(1, -2), __floats2bfloat162_rn(448, 0.25f)).__x ==
      four.__x);
}
#endif
