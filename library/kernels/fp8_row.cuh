#pragma once
/// \file
/// What the kernels to 8 bits do with a row: scales, and the conversion.

#include <cuda_fp8.h>

#include "library/kernels/forward_row.cuh"
#include "library/kernels/fp8.hpp"

namespace rmsnorm::kernels {

/// Neighbouring elements of y.
template <int kCount>
struct alignas(kCount) Quantized {
  unsigned words[kCount / 4];
};

/// The limit, or the scale that is given.
__device__ inline float limit_or_scale(const Fp8Norm& op) {
  return op.limit_or_scale == nullptr ? INFINITY : *op.limit_or_scale;
}

/// The scale for elements whose largest is this.
__device__ inline float scale_for(float largest, float limit, Dtype type) {
  const bool is_e4m3 = type == Dtype::e4m3;
  const float most = is_e4m3 ? 448 : 57344;
  const float of_most = is_e4m3 ? 1 / 448.0f : 1 / 57344.0f;
  const float least = is_e4m3 ? 1 / (448.0f * 512) : 1 / (57344.0f * 512);
  largest = fminf(largest, limit);
  // largest / most, bit for bit: the product with the reciprocal, and what is left of largest. It
  // has no need of a division's branch. Where that would give something else, least is more.
  const float product = largest * of_most;
  const float quotient = fmaf(fmaf(-product, most, largest), of_most, product);
  return largest < INFINITY ? fmaxf(quotient, least) : INFINITY;
}

/// 1 / scale, bit for bit, for a scale of scale_for(). None of these has a subnormal reciprocal: so
/// it has no need of a division's branch.
__device__ inline float reciprocal(float scale) {
#ifdef __CUDA_ARCH__
  float nearly;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(nearly) : "f"(scale));
  const float better = fmaf(nearly, fmaf(-scale, nearly, 1), nearly);  // one step of Newton's
  return scale < INFINITY ? better : 0;
#else
  return 1 / scale;
#endif
}

/// The same as e8m0 has it: the power of two that is next, from 2^-127 to 2^127. None is too small.
__device__ inline float power_for(float largest, float limit, Dtype type) {
  const float quotient = fminf(largest, limit) / (type == Dtype::e4m3 ? 448.0f : 57344.0f);
  constexpr unsigned kHalf = 0x400000, kMantissa = 0x7fffff, kMost = 254;
  const unsigned bits = max(__float_as_uint(fmaxf(quotient, 0)), kHalf);  // 2^-127 is subnormal
  const unsigned up = (bits & kMantissa) > (bits > kMantissa ? 0 : kHalf) ? 1 : 0;
  const unsigned exponent = min((bits >> 23) + up, kMost);
  return __uint_as_float(exponent == 0 ? kHalf : exponent << 23);
}

/// One over a power of two that is a scale.
__device__ inline float reciprocal_of_power(float power) {
  const unsigned exponent = __float_as_uint(power) >> 23;
  return __uint_as_float(exponent == 254 ? 0x400000 : (254 - exponent) << 23);
}

/// Stores the scale of a group of a row, whose scales are there.
__device__ inline void store_scale(
    const Fp8Norm& op, char* of_row, std::int64_t group, float scale) {
  *reinterpret_cast<float*>(of_row + group * op.group_stride) = scale;
}

/// The powers of a row in tiles, as matrix products of Blackwell take them: a tile has those of 128
/// rows and 4 groups, in 512 bytes, and one column of tiles follows the other.
struct TiledRow {
  std::uint8_t* powers;  // of group 0

  __device__ TiledRow(const Fp8Norm& op, std::int64_t row) {
    const std::int64_t columns = (op.hidden / op.power_columns + 3) / 4;
    powers = op.tiles + row / 128 * columns * 512 + row % 32 * 16 + row % 128 / 32 * 4;
  }
  __device__ std::uint8_t& operator[](std::int64_t group) const {
    return powers[group / 4 * 512 + group % 4];
  }
};

/// Stores the power of a group of a row, whose powers are there. In tiles, whoever stores a row's
/// last one makes zeros of the groups that are not there.
__device__ inline void store_power(
    const Fp8Norm& op, char* of_row, std::int64_t group, float power) {
  const auto exponent = static_cast<std::uint8_t>(__float_as_uint(power) >> 23);
  if (op.tiles != nullptr) {
    const TiledRow row(op, of_row - reinterpret_cast<char*>(op.tiles));
    row[group] = exponent;
    const int groups = op.hidden / op.power_columns;
    for (std::int64_t past = group + 1; past >= groups && past % 4 != 0; ++past) row[past] = 0;
  } else {
    *reinterpret_cast<std::uint8_t*>(of_row + group * op.group_stride) = exponent;
  }
}

/// Makes zeros of the rows that are not there in the last tile, which the threads of the last row
/// share out.
__device__ inline void fill_tiles(const Fp8Norm& op, const char* of_row, int thread, int threads) {
  if (op.tiles == nullptr) return;
  const std::int64_t rows = op.tiled_rows;
  if (of_row - reinterpret_cast<char*>(op.tiles) != rows - 1) return;
  const int columns = (op.hidden / op.power_columns + 3) / 4;
  const auto missing = static_cast<int>((rows + 127) / 128 * 128 - rows);
  for (int i = thread; i < missing * columns; i += threads) {
    const TiledRow row(op, rows + i / columns);
    *reinterpret_cast<unsigned*>(&row[i % columns * 4]) = 0;
  }
}

/// The largest of neighbouring numbers without their signs; 0 if all are NaN.
template <int kCount>
__device__ float largest_of(const float* number) {
  float largest = 0;
#pragma unroll
  for (int j = 0; j < kCount; ++j) largest = fmaxf(largest, fabsf(number[j]));
  return largest;
}

/// Neighbouring numbers times a factor as elements of y, of which the first is the lowest byte.
template <int kCount>
__device__ Quantized<kCount> quantize(const float* number, float factor, Dtype type) {
  Quantized<kCount> quantized;
  const auto convert = [&](__nv_fp8_interpretation_t to) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const float* const four = number + 4 * i;
      const unsigned low = __nv_cvt_float2_to_fp8x2(
          make_float2(four[0] * factor, four[1] * factor), __NV_SATFINITE, to);
      const unsigned high = __nv_cvt_float2_to_fp8x2(
          make_float2(four[2] * factor, four[3] * factor), __NV_SATFINITE, to);
      quantized.words[i] = low | high << 16;
    }
  };
  if (type == Dtype::e4m3) {
    convert(__NV_E4M3);
  } else {
    convert(__NV_E5M2);
  }
  return quantized;
}

}  // namespace rmsnorm::kernels
