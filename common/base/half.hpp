#pragma once
/// \file
/// The two 16-bit types as bits, and what they are as floats. A float becomes the nearest value, of
/// two that are equally near the one whose last bit is 0; beyond the largest by half a step or more
/// it becomes Inf, and every NaN the NaN that CUDA writes.
///
///     fp16  1 sign, 5 exponent, 10 mantissa bits: 11 significant bits, up to 65504
///     bf16  1 sign, 8 exponent,  7 mantissa bits:  8 significant bits, the upper half of a float

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace rmsnorm {

/// The NaN that a float's NaN becomes, in either type.
constexpr std::uint16_t kHalfNan = 0x7fff;

/// A float as its bits.
__host__ __device__ inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// The float with these bits.
__host__ __device__ inline float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// The value of a bf16.
__host__ __device__ inline float bf16_to_float(std::uint16_t bits) {
  return float_of(std::uint32_t{bits} << 16);
}

/// The nearest bf16.
__host__ __device__ inline std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return kHalfNan;
  // Just under half a step, and half a step if the last bit is 1: a tie goes to 0.
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The value of an fp16.
__host__ __device__ inline float fp16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} >> 15 << 31;
  const std::uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return float_of(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x400) return float_of(sign | ((magnitude << 13) + (112u << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;  // exact
  return float_of(sign | bits_of(subnormal));
}

/// The nearest fp16.
__host__ __device__ inline std::uint16_t float_to_fp16(float value) {
  const auto sign = static_cast<std::uint16_t>(bits_of(value) >> 16 & 0x8000);
  const std::uint32_t magnitude = bits_of(value) & 0x7fffffff;
  if (magnitude > 0x7f800000) return kHalfNan;
  if (magnitude >= bits_of(65520.0f)) return sign | 0x7c00;  // half a step above 65504
  if (magnitude < bits_of(0x1p-14f)) {
    // A subnormal is a multiple of 2^-24, and so is what an addition to 0.5 leaves of a float.
    return static_cast<std::uint16_t>(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
  }
  const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

}  // namespace rmsnorm
