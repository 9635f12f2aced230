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

/// The same as e8m0 has it: the next power of two, from 2^-127 to 2^127. The largest number of
/// either type is 1.75 times a power of two.
__device__ inline float power_for(float largest, float limit, Dtype type) {
  constexpr unsigned kHalf = 0x400000, kMantissa = 0x7fffff, kThreeQuarters = 0x600000;
  const unsigned bits = __float_as_uint(fmaxf(fminf(largest, limit), 0));
  const int next = static_cast<int>((bits + (kMantissa - kThreeQuarters)) >> 23);
  const int exponent = max(next - (type == Dtype::e4m3 ? 8 : 15), 0);
  const unsigned power = exponent == 0 ? kHalf : exponent << 23;  // 2^-127 is subnormal
  return largest < INFINITY || limit < INFINITY ? __uint_as_float(power) : 0x1p127f;
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

/// Where a row's powers are: that of group g in four g / 4 at place g % 4. In tiles, as matrix
/// products of Blackwell take them, a tile has those of 128 rows and 4 groups, in 512 bytes, and
/// one column of tiles follows the other.
struct PowersOfRow {
  std::uint8_t* first;
  std::int64_t stride, stride_of_fours;  // bytes

  /// \param of_row  where they are; in tiles, so many bytes behind the first as its number
  __device__ PowersOfRow(const Fp8Norm& op, char* of_row)
      : first(reinterpret_cast<std::uint8_t*>(of_row)),
        stride(op.group_stride),
        stride_of_fours(4 * op.group_stride) {
    if (op.tiles == nullptr) return;
    const std::int64_t row = of_row - reinterpret_cast<char*>(op.tiles);
    const std::int64_t columns = (op.hidden / kScaleBlock + 3) / 4;
    first = op.tiles + row / 128 * columns * 512 + row % 32 * 16 + row % 128 / 32 * 4;
    stride = 1, stride_of_fours = 512;
  }
  __device__ std::uint8_t& operator[](int group) const {
    return first[group / 4 * stride_of_fours + group % 4 * stride];
  }
  __device__ void store(int group, float power) const {
    (*this)[group] = static_cast<std::uint8_t>(__float_as_uint(power) >> 23);
  }
};

/// Makes zeros of what is no row's or no group's in a row's tiles, of which the last row's threads
/// share out the rows that are not there.
__device__ inline void fill_tiles(const Fp8Norm& op, char* of_row, int thread, int threads) {
  if (op.tiles == nullptr) return;
  const PowersOfRow row(op, of_row);
  const int groups = op.hidden / kScaleBlock, columns = (groups + 3) / 4;
  if (thread < 4 * columns - groups) row[groups + thread] = 0;
  const std::int64_t rows = op.tiled_rows;
  if (of_row - reinterpret_cast<char*>(op.tiles) != rows - 1) return;
  const auto missing = static_cast<int>((rows + 127) / 128 * 128 - rows);
  for (int i = thread; i < missing * columns; i += threads) {
    const PowersOfRow other(op, of_row + 1 + i / columns);
    *reinterpret_cast<unsigned*>(&other[i % columns * 4]) = 0;
  }
}

/// Lanes that have the power of one of kVectors vectors of kColumns, of those that share a power.
template <int kColumns, int kVectors>
constexpr int kPowerPart = kScaleBlock / kColumns / (kVectors <= 2 ? kVectors : 4);

/// The powers of some lanes, of the largest numbers of their vectors, which are 0 or more. They
/// share them out, as warp_reduce_each() does: each kPowerPart-th part of them has one, the first
/// that of vector 0, and its first lane stores it, if the row has that vector.
/// \tparam kColumns  of a lane's vector
/// \param i       the number of a lane's first vector, of `end`
/// \param stride  from one of its vectors to the next
template <int kColumns, int kVectors>
__device__ float choose_powers(
    const Fp8Norm& op, const PowersOfRow& powers, const float (&largest)[kVectors], float limit,
    Dtype type, int i, int stride, int end) {
  static_assert(kScaleBlock == 32 && kScaleGroup == 128 && (kColumns == 4 || kColumns == 8));
  constexpr int kLanes = kScaleBlock / kColumns, kPart = kPowerPart<kColumns, kVectors>;
  float most[kLanes / kPart] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) most[k] = largest[k];
  float of_part = warp_reduce_each(most, kLanes, Larger());
  const bool is_group = op.power_columns == kScaleGroup;
  if (is_group) {
    of_part = fmaxf(of_part, __shfl_xor_sync(0xffffffff, of_part, kLanes));
    of_part = fmaxf(of_part, __shfl_xor_sync(0xffffffff, of_part, 2 * kLanes));
  }
  const float power = power_for(of_part, limit, type);
  const int lane = i % kLanes;
  i += lane / kPart * stride - lane;
  const int shift = (kColumns == 4 ? 3 : 2) + (is_group ? 2 : 0);  // of the number of lanes
  if (lane % kPart == 0 && i >> shift << shift == i && i < end) powers.store(i >> shift, power);
  return power;
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
