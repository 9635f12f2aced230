#pragma once
/// \file
/// The types of tensors' elements, and single elements as numbers, on host and device.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "common/base/e8m0.hpp"
#include "common/base/fp8.hpp"
#include "common/base/half.hpp"

namespace rmsnorm {

/// What the elements of a tensor are.
enum class Dtype {
  fp32,   ///< float
  fp16,   ///< __half
  bf16,   ///< __nv_bfloat16
  e4m3,   ///< __nv_fp8_e4m3
  e5m2,   ///< __nv_fp8_e5m2
  e8m0,   ///< __nv_fp8_e8m0: scales, which are rounded up
  int32,  ///< int; what is no number is the smallest
};

/// "fp32", "fp16", "bf16", "e4m3", "e5m2", "e8m0" or "int32".
const char* to_string(Dtype dtype);

/// Bytes of an element.
__host__ __device__ constexpr int bytes_of(Dtype dtype) {
  if (dtype == Dtype::fp32 || dtype == Dtype::int32) return 4;
  return dtype == Dtype::fp16 || dtype == Dtype::bf16 ? 2 : 1;
}

/// Is it one of the two types of 8-bit numbers?
__host__ __device__ constexpr bool is_fp8(Dtype dtype) {
  return dtype == Dtype::e4m3 || dtype == Dtype::e5m2;
}

/// Which of them it is, if it is one.
__host__ __device__ constexpr Fp8 fp8_of(Dtype dtype) {
  return dtype == Dtype::e4m3 ? Fp8::e4m3 : Fp8::e5m2;
}

/// The largest relative error that rounding an fp32 number to a type adds: half an ulp of 1.
/// To round a scale up is no error: it is what an operation asks for.
constexpr double rounding_error(Dtype dtype) {
  if (is_fp8(dtype)) return dtype == Dtype::e4m3 ? 0x1p-4 : 0x1p-3;
  if (bytes_of(dtype) != 2) return 0;
  return dtype == Dtype::fp16 ? 0x1p-11 : 0x1p-8;
}

/// The bits of element i.
__host__ __device__ inline std::uint32_t bits_at(const void* data, Dtype dtype, std::size_t i) {
  if (bytes_of(dtype) == 4) return static_cast<const std::uint32_t*>(data)[i];
  if (bytes_of(dtype) == 1) return static_cast<const std::uint8_t*>(data)[i];
  return static_cast<const std::uint16_t*>(data)[i];
}

/// Makes these the bits of element i.
__host__ __device__ inline void set_bits(
    void* data, Dtype dtype, std::size_t i, std::uint32_t bits) {
  if (bytes_of(dtype) == 4) {
    static_cast<std::uint32_t*>(data)[i] = bits;
  } else if (bytes_of(dtype) == 1) {
    static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(bits);
  } else {
    static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(bits);
  }
}

/// The bits of a type as its value.
__host__ __device__ inline float value_of(Dtype dtype, std::uint32_t bits) {
  if (dtype == Dtype::fp32) return float_of(bits);
  if (dtype == Dtype::int32) return static_cast<float>(static_cast<std::int32_t>(bits));
  if (is_fp8(dtype)) return fp8_to_float(fp8_of(dtype), static_cast<std::uint8_t>(bits));
  if (dtype == Dtype::e8m0) return e8m0_to_float(static_cast<std::uint8_t>(bits));
  const auto half = static_cast<std::uint16_t>(bits);
  return dtype == Dtype::fp16 ? fp16_to_float(half) : bf16_to_float(half);
}

/// A float, rounded to a type, as the type's bits. It goes to the nearest, but for e8m0, and 8 bits
/// saturate: what is out of range becomes their largest value.
__host__ __device__ inline std::uint32_t bits_of(Dtype dtype, float value) {
  if (dtype == Dtype::fp32) return bits_of(value);
  if (dtype == Dtype::int32) {
    const bool is_one = value >= -0x1p31f && value < 0x1p31f;
    return is_one ? static_cast<std::uint32_t>(static_cast<std::int32_t>(value)) : 0x80000000;
  }
  if (is_fp8(dtype)) return to_fp8(fp8_of(dtype), value, Overflow::saturates);
  if (dtype == Dtype::e8m0) return to_e8m0(value);
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
