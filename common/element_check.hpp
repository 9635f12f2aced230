#pragma once
/// \file
/// The comparison of one element, the same on host and device.

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace rmsnorm {

/// What the verifier fills y with before a launch: a NaN that no arithmetic produces, as bits.
constexpr std::uint32_t kPoisonBits = 0x7fa5a5a5;

/// Whether an element of y is as the verifier left it: not written by anybody.
__host__ __device__ inline bool is_poison(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits == kPoisonBits;
}

/// What the comparison of one element found.
struct ElementCheck {
  double expected;  ///< x * rstd * weight in fp64
  double allowed;   ///< largest absolute difference that rounding can explain
  double error;     ///< relative difference; 0 where it has no meaning (NaN, Inf, subnormals)
  bool ok;          ///< whether the element is right
};

/// Compares one element of y with the reference. `bound` is relative (relative_error_bound).
/// Written so that a NaN fails where none is expected.
__host__ __device__ inline ElementCheck check_element(
    float got, float x, float weight, double rstd, double bound) {
  const double expected = x * rstd * weight;
  if (std::isnan(expected)) return {expected, 0, 0, std::isnan(got) && !is_poison(got)};
  if (std::isinf(static_cast<float>(expected))) {
    return {expected, 0, 0, got == static_cast<float>(expected)};
  }

  // Next to zero fp32 has fewer than 24 bits (subnormals): there, rounding is off by up to 2^-150
  // whatever the size. x * rstd carries that on times the weight, x * weight times rstd.
  const double subnormal = 0x1p-150 * (1 + std::fabs(weight) + rstd);
  const double allowed = bound * std::fabs(expected) + subnormal;
  const double difference = std::fabs(got - expected);
  const bool is_subnormal = std::fabs(expected) < FLT_MIN;
  return {
      expected, allowed, is_subnormal ? 0 : difference / std::fabs(expected),
      difference <= allowed};
}

}  // namespace rmsnorm
