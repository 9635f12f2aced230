#pragma once
/// \file
/// The type of a scale that is a power of two, as bits: 8 bits of exponent, and nothing else. They
/// stand for 2^-127 to 2^127; 0xff is NaN. There is neither a sign nor 0.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/base/half.hpp"

namespace rmsnorm {

constexpr std::uint8_t kE8m0Nan = 0xff;      ///< the only NaN
constexpr std::uint8_t kLargestE8m0 = 0xfe;  ///< 2^127

/// The value of 8 bits. The NaN has a payload that no arithmetic yields.
__host__ __device__ inline float e8m0_to_float(std::uint8_t bits) {
  if (bits == kE8m0Nan) return float_of(0x7fc000ff);
  return float_of(bits == 0 ? 0x400000 : std::uint32_t{bits} << 23);  // 2^-127 is subnormal
}

/// The smallest power of two that is not less than a number, of those that there are: of what is
/// beyond the largest, the largest.
__host__ __device__ inline std::uint8_t to_e8m0(float value) {
  if (value != value) return kE8m0Nan;
  if (value <= e8m0_to_float(0)) return 0;
  const std::uint32_t exponent = (bits_of(value) + 0x7fffff) >> 23;  // it carries from the mantissa
  return static_cast<std::uint8_t>(exponent < kLargestE8m0 ? exponent : kLargestE8m0);
}

}  // namespace rmsnorm
