#pragma once
/// \file
/// The types of a problem's tensors, and their elements on host and device.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/half.hpp"
#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// The types of a problem.
struct Types {
  Dtype dtype = Dtype::fp32;                  ///< of x, y and the residual
  std::optional<Dtype> weight = Dtype::fp32;  ///< fp32 or that of x; empty: there is no weight
  float weight_bias = 0;                      ///< see TypedProblem; 0 without a weight

  bool operator==(const Types&) const = default;  ///< whether all are the same
};

/// "fp32", "fp16" or "bf16".
const char* to_string(Dtype dtype);

/// The types as files and the command line have them: "bf16", "bf16/fp32" with another weight,
/// "bf16/none" without. The bias is not named.
std::string to_string(const Types& types);

/// A text, and the types behind it if they are not fp32: "decode bf16".
std::string with_dtype(const std::string& text, const std::string& dtype);

/// The types of such a text; none if there are no such types.
std::optional<Types> types_named(std::string_view text);

/// All of them, without a bias: each type of x with a weight of that type, of fp32, and without.
std::vector<Types> all_types();

/// The types of a problem.
Types types_of(const TypedProblem& problem);

/// "" if the lesson can do the problem, otherwise one sentence with the reason: its own, or that it
/// knows fp32 alone.
std::string why_refused(const Lesson& lesson, const TypedProblem& problem);

/// The largest relative error that rounding an fp32 number to a type adds: half an ulp of 1.
constexpr double rounding_error(Dtype dtype) {
  return dtype == Dtype::fp32 ? 0 : dtype == Dtype::fp16 ? 0x1p-11 : 0x1p-8;
}

/// The bits of element i.
__host__ __device__ inline std::uint32_t bits_at(const void* data, Dtype dtype, std::size_t i) {
  if (dtype == Dtype::fp32) return static_cast<const std::uint32_t*>(data)[i];
  return static_cast<const std::uint16_t*>(data)[i];
}

/// Makes these the bits of element i.
__host__ __device__ inline void set_bits(
    void* data, Dtype dtype, std::size_t i, std::uint32_t bits) {
  if (dtype == Dtype::fp32) {
    static_cast<std::uint32_t*>(data)[i] = bits;
  } else {
    static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(bits);
  }
}

/// The bits of a type as its value.
__host__ __device__ inline float value_of(Dtype dtype, std::uint32_t bits) {
  if (dtype == Dtype::fp32) return float_of(bits);
  const auto half = static_cast<std::uint16_t>(bits);
  return dtype == Dtype::fp16 ? fp16_to_float(half) : bf16_to_float(half);
}

/// A float, rounded to a type, as the type's bits.
__host__ __device__ inline std::uint32_t bits_of(Dtype dtype, float value) {
  if (dtype == Dtype::fp32) return bits_of(value);
  return dtype == Dtype::fp16 ? float_to_fp16(value) : float_to_bf16(value);
}

/// The value of element i.
__host__ __device__ inline float value_at(const void* data, Dtype dtype, std::size_t i) {
  return value_of(dtype, bits_at(data, dtype, i));
}

/// A float, rounded to a type.
__host__ __device__ inline float rounded(Dtype dtype, float value) {
  return value_of(dtype, bits_of(dtype, value));
}

}  // namespace rmsnorm
