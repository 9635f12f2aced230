#pragma once
/// \file
/// Random numbers that host and device can draw alike: element i depends on the seed and i alone.

#include <cuda_runtime.h>

#include <cstdint>

namespace rmsnorm {

/// 64 well-mixed bits for the index-th draw of a seed (the finaliser of SplitMix64, Steele 2014).
__host__ __device__ inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t bits = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

/// Uniform in [-1, 1), a multiple of 2^-23: the same bits on every machine.
__host__ __device__ inline float random_float(std::uint64_t seed, std::uint64_t index) {
  const auto mantissa = static_cast<std::int32_t>(random_bits(seed, index) >> 40);  // 24 bits
  return static_cast<float>(mantissa - (1 << 23)) * 0x1p-23f;
}

/// An element of x: uniform, in a row that has its own scale, a power of two from 2^-4 to 2^3.
/// Rows of different scale make a kernel that uses another row's sum, or forgets eps, stand out.
__host__ __device__ inline float random_x(
    std::uint64_t seed, std::uint64_t row, std::uint64_t col, std::uint64_t hidden) {
  const int exponent = static_cast<int>(random_bits(~seed, row) % 8) - 4;
  const float scale =
      exponent < 0 ? 1.0f / static_cast<float>(1 << -exponent) : static_cast<float>(1 << exponent);
  return scale * random_float(seed, row * hidden + col);
}

/// An element of the weight: between 0.5 and 1.5 in size, of either sign, never the same for all.
__host__ __device__ inline float random_weight(std::uint64_t seed, std::uint64_t col) {
  const float value = random_float(seed ^ 0x5eed, col);
  return value < 0 ? value - 0.5f : value + 0.5f;
}

/// A scale, which is greater than 0: most are from 2^-12 to 2^12, one of eight is far smaller or
/// larger, but a normal number. Of four, one is a power of two, by which numbers divide exactly.
__host__ __device__ inline float random_scale(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t bits = random_bits(seed ^ 0x5ca1e, i);
  const auto fraction = static_cast<float>(bits >> 41) * 0x1p-23f;
  const float mantissa = bits % 4 == 0 ? 1 : 1 + fraction;
  if (bits >> 2 & 1 && bits >> 3 & 1 && bits >> 4 & 1) {
    return mantissa * (bits >> 5 & 1 ? 0x1p-126f : 0x1p126f);
  }
  const auto exponent = static_cast<int>(bits >> 6 & 0xff) % 24;
  return mantissa * static_cast<float>(1 << exponent) * 0x1p-12f;
}

/// Place i of so many that are all different: a step from each to the next that has no divisor in
/// common with their number.
__host__ __device__ inline std::uint64_t random_place(
    std::uint64_t seed, std::uint64_t i, std::uint64_t number) {
  const auto divisor = [](std::uint64_t a, std::uint64_t b) {
    while (b != 0) {
      const std::uint64_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  };
  std::uint64_t step = random_bits(seed, 0) % number;
  while (divisor(step, number) != 1) step = (step + 1) % number;
  return (random_bits(seed, 1) % number + i * step) % number;
}

}  // namespace rmsnorm
