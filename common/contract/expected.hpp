#pragma once
/// \file
/// What an element should be, how far rounding may take a kernel from it, and the comparison: the
/// same on host and device.

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "common/contract/dtype.hpp"

namespace rmsnorm {

/// An element by the fp64 reference.
struct Expected {
  double value;    ///< in fp64
  double allowed;  ///< by which fp32 arithmetic may be off, absolutely; >= 0
  double size;     ///< what an error is relative to: that of the value, or of what was added up
  bool may_be_zero = false;  ///< where fp32 makes 0 of it, and better arithmetic the value
};

/// What the comparison of one element found.
struct ElementCheck {
  double expected;  ///< the value, or the type's largest one if it is beyond
  double allowed;   ///< largest absolute difference that rounding can explain
  double error;  ///< relative difference; 0 where it has no meaning (Inf, subnormals, saturation)
  bool ok;       ///< whether the element is right
};

/// What tensors are filled with before a launch that has to write them, as bits: a signalling NaN,
/// which no arithmetic and no rounding produces. e4m3 has two NaN alone: there it is the negative
/// one, which no conversion of a float yields. e8m0 has one, which is no scale.
__host__ __device__ inline std::uint32_t poison_bits(Dtype dtype) {
  if (dtype == Dtype::fp32) return 0x7fa5a5a5;
  if (dtype == Dtype::e8m0) return kE8m0Nan;
  if (is_fp8(dtype)) return dtype == Dtype::e4m3 ? 0xff : 0x7d;
  return dtype == Dtype::fp16 ? 0x7da5 : 0x7fa5;
}

/// Whether the value of an element is as the verifier left it: not written by anybody.
__host__ __device__ inline bool is_poison(float value) {
  for (const Dtype dtype :
       {Dtype::fp32, Dtype::fp16, Dtype::bf16, Dtype::e4m3, Dtype::e5m2, Dtype::e8m0}) {
    if (bits_of(value) == bits_of(value_of(dtype, poison_bits(dtype)))) return true;
  }
  return false;
}

/// The smallest number of a type that has all its digits.
__host__ __device__ inline double least_normal(Dtype dtype) {
  if (dtype == Dtype::e4m3) return 0x1p-6;
  return dtype == Dtype::fp16 || dtype == Dtype::e5m2 ? 0x1p-14 : FLT_MIN;
}

/// The number that all larger ones are rounded to; Inf where these become Inf.
__host__ __device__ inline double saturates_at(Dtype dtype) {
  if (!is_fp8(dtype)) return dtype == Dtype::e8m0 ? e8m0_to_float(kLargestE8m0) : INFINITY;
  return fp8_to_float(fp8_of(dtype), largest_fp8(fp8_of(dtype)));
}

/// Compares an element with what fp32 arithmetic makes of the expected one, and with what rounding
/// to its type then makes of that. Written so that a NaN fails where none is expected.
///
/// What a kernel rounds to 16 or 8 bits is an fp32 number within the bound. Rounding keeps the
/// order of numbers, so the result lies between the two ends of the bound, both rounded: no closer
/// bound is possible, and it holds for subnormals, and for what becomes Inf or the largest number.
__host__ __device__ inline ElementCheck check_element(float got, Expected wanted, Dtype dtype) {
  const double value = wanted.value;
  if (wanted.may_be_zero && std::isfinite(value) && got == 0) return {0, 0, 0, true};
  if (std::isnan(value)) return {value, 0, 0, std::isnan(got) && !is_poison(got)};
  if (std::isinf(static_cast<float>(value))) {
    const float only = rounded(dtype, static_cast<float>(value));
    return {only, 0, 0, got == only};
  }
  if (dtype == Dtype::e8m0) {  // of two powers that are both right, one is as good as the other
    const double least = rounded(dtype, static_cast<float>(value - wanted.allowed));
    const double most = rounded(dtype, static_cast<float>(value + wanted.allowed));
    const double power = rounded(dtype, static_cast<float>(value));
    return {power, std::fmax(most - power, power - least), 0, least <= got && got <= most};
  }
  const double limit = saturates_at(dtype);
  const double limited = std::fmin(std::fmax(value, -limit), limit);
  double allowed = wanted.allowed;
  double least = value - allowed;
  double most = value + allowed;
  if (dtype != Dtype::fp32) {
    least = rounded(dtype, static_cast<float>(least));
    most = rounded(dtype, static_cast<float>(most));
    allowed = std::fmax(std::fabs(most - limited), std::fabs(limited - least));
  }
  const double difference = std::fabs(got - limited);
  const bool has_error =
      wanted.size >= least_normal(dtype) && std::isfinite(difference) && std::fabs(value) <= limit;
  return {limited, allowed, has_error ? difference / wanted.size : 0, least <= got && got <= most};
}

}  // namespace rmsnorm
