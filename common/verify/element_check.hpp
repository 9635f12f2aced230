#pragma once
/// \file
/// The comparison of one element, the same on host and device.

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "common/contract/types.hpp"

namespace rmsnorm {

/// What the verifier fills y with before a launch, as bits: a signalling NaN, which no arithmetic
/// and no rounding produces.
__host__ __device__ inline std::uint32_t poison_bits(Dtype dtype) {
  if (dtype == Dtype::fp32) return 0x7fa5a5a5;
  return dtype == Dtype::fp16 ? 0x7da5 : 0x7fa5;
}

/// Whether the value of an element of y is as the verifier left it: not written by anybody.
__host__ __device__ inline bool is_poison(float value) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp16, Dtype::bf16}) {
    if (bits_of(value) == bits_of(value_of(dtype, poison_bits(dtype)))) return true;
  }
  return false;
}

/// What the comparison of one element found.
struct ElementCheck {
  double expected;  ///< x * rstd * factor in fp64
  double allowed;   ///< largest absolute difference that rounding can explain
  double error;     ///< relative difference; 0 where it has no meaning (Inf, subnormals)
  bool ok;          ///< whether the element is right
};

/// What the weight's element `col` makes of a column: the factor, in fp64.
template <class AnyProblem>
__host__ __device__ double factor_of(const AnyProblem& p, std::size_t col) {
  if (p.weight == nullptr) return 1;
  return static_cast<double>(value_at(p.weight, p.weight_dtype, col)) + p.weight_bias;
}

/// Whether an element of the residual is the sum that it has to be, rounded once.
__host__ __device__ inline bool is_sum(float got, float sum, Dtype dtype) {
  const float expected = rounded(dtype, sum);
  return std::isnan(expected) ? std::isnan(got) : got == expected;
}

/// The smallest number of a type that has all its digits.
__host__ __device__ inline double least_normal(Dtype dtype) {
  return dtype == Dtype::fp16 ? 0x1p-14 : FLT_MIN;
}

/// Compares a value with what fp32 arithmetic makes of `expected`, which may be off by `allowed`,
/// and with what rounding to `dtype` then makes of that. `size` is what the error is relative to.
/// Written so that a NaN fails where none is expected.
///
/// What a kernel rounds to 16 bits is an fp32 number within the bound. Rounding keeps the order of
/// numbers, so the result lies between the two ends of the bound, both rounded: no closer bound is
/// possible, and it holds for subnormals and for what becomes Inf.
__host__ __device__ inline ElementCheck check_value(
    float got, double expected, double allowed, double size, Dtype dtype) {
  if (std::isnan(expected)) return {expected, 0, 0, std::isnan(got) && !is_poison(got)};
  if (std::isinf(static_cast<float>(expected))) {
    return {expected, 0, 0, got == static_cast<float>(expected)};
  }
  double least = expected - allowed;
  double most = expected + allowed;
  if (dtype != Dtype::fp32) {
    least = rounded(dtype, static_cast<float>(least));
    most = rounded(dtype, static_cast<float>(most));
    allowed = std::fmax(std::fabs(most - expected), std::fabs(expected - least));
  }
  const double difference = std::fabs(got - expected);
  const bool has_error = size >= least_normal(dtype) && std::isfinite(difference);
  return {expected, allowed, has_error ? difference / size : 0, least <= got && got <= most};
}

/// Compares one element of y with the reference. `bound` is that of fp32 arithmetic, relative
/// (relative_error_bound).
__host__ __device__ inline ElementCheck check_element(
    float got, float x, double factor, double rstd, double bound, Dtype dtype = Dtype::fp32) {
  const double expected = x * rstd * factor;
  // Next to zero fp32 has fewer than 24 bits (subnormals): there, rounding is off by up to 2^-150
  // whatever the size. x * rstd carries that on times the weight, x * weight times rstd.
  const double subnormal = 0x1p-150 * (1 + std::fabs(factor) + rstd);
  const double size = std::fabs(expected);
  return check_value(got, expected, bound * size + subnormal, size, dtype);
}

}  // namespace rmsnorm
