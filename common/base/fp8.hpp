#pragma once
/// \file
/// The two 8-bit types as bits, and what they are as floats. A number becomes the nearest value, of
/// two that are equally near the one whose last bit is 0, and every NaN the NaN that CUDA writes.
/// What would come behind the largest value, were there room for it, is out of range.
///
///     e4m3  1 sign, 4 exponent, 3 mantissa bits: 4 significant bits, 2^-9 to 448, no Inf, one NaN
///     e5m2  1 sign, 5 exponent, 2 mantissa bits: 3 significant bits, 2^-16 to 57344, Inf, NaN

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "common/base/half.hpp"

namespace rmsnorm {

/// One of the 8-bit types.
enum class Fp8 {
  e4m3,  ///< 4 bits of exponent, 3 of mantissa
  e5m2,  ///< 5 bits of exponent, 2 of mantissa
};

/// What becomes of a number that is out of range, Inf among them.
enum class Overflow {
  saturates,  ///< the largest value
  leaves,     ///< Inf, or NaN where there is no Inf
};

/// The NaN that a number's NaN becomes, in either type.
constexpr std::uint8_t kFp8Nan = 0x7f;

/// Bits of the mantissa, without the leading one.
__host__ __device__ constexpr int mantissa_bits(Fp8 type) {
  return type == Fp8::e4m3 ? 3 : 2;
}

/// What is added to the exponent.
__host__ __device__ constexpr int exponent_bias(Fp8 type) {
  return type == Fp8::e4m3 ? 7 : 15;
}

/// The largest value, as bits.
__host__ __device__ constexpr std::uint8_t largest_fp8(Fp8 type) {
  return type == Fp8::e4m3 ? 0x7e : 0x7b;
}

/// A double as its bits.
__host__ __device__ inline std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// The value of 8 bits.
__host__ __device__ inline float fp8_to_float(Fp8 type, std::uint8_t bits) {
  const int mantissa = mantissa_bits(type);
  const int bias = exponent_bias(type);
  const std::uint32_t sign = std::uint32_t{bits} >> 7 << 31;
  const std::uint32_t magnitude = bits & 0x7f;
  if (magnitude > largest_fp8(type)) {  // Inf if the mantissa is 0, else NaN
    return float_of(sign | 0x7f800000 | (magnitude << (23 - mantissa) & 0x7fffff));
  }
  if (magnitude >> mantissa == 0) {  // a subnormal: a multiple of the least one
    const float least = float_of(static_cast<std::uint32_t>(128 - bias - mantissa) << 23);
    return float_of(sign | bits_of(static_cast<float>(magnitude) * least));  // exact
  }
  const auto shift = static_cast<std::uint32_t>(127 - bias) << 23;
  return float_of(sign | ((magnitude << (23 - mantissa)) + shift));
}

/// The nearest 8 bits. A float is a double, too: it is rounded once.
__host__ __device__ inline std::uint8_t to_fp8(Fp8 type, double value, Overflow overflow) {
  if (value != value) return kFp8Nan;
  const int dropped = 52 - mantissa_bits(type);
  const auto sign = static_cast<std::uint8_t>(bits_of(value) >> 63 << 7);
  const double size = value < 0 ? -value : value;
  const std::uint64_t magnitude = bits_of(size) & ~0ull >> 1;  // also of -0
  const auto before_least = static_cast<std::uint64_t>(1023 - exponent_bias(type));
  std::uint64_t code;
  if (magnitude >> 52 <= before_least) {
    // A subnormal is a multiple of the least one, as is what an addition to 2^52 of them leaves.
    const std::uint64_t many = (before_least + 1 + static_cast<std::uint64_t>(dropped)) << 52;
    double sum;
    memcpy(&sum, &many, sizeof sum);
    sum += size;
    code = bits_of(sum) - many;
  } else {
    const std::uint64_t half = 1ull << (dropped - 1);
    const std::uint64_t rounded = magnitude + half - 1 + (magnitude >> dropped & 1);
    code = (rounded >> dropped) - (before_least << mantissa_bits(type));
  }
  if (code <= largest_fp8(type)) return static_cast<std::uint8_t>(sign | code);
  const int beyond = overflow == Overflow::saturates ? 0 : 1;
  return static_cast<std::uint8_t>(sign | (largest_fp8(type) + beyond));
}

}  // namespace rmsnorm
