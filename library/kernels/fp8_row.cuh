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

/// Stores the scale of a group of a row, whose scales are there.
__device__ inline void store_scale(
    const Fp8Norm& op, char* of_row, std::int64_t group, float scale) {
  *reinterpret_cast<float*>(of_row + group * op.group_stride) = scale;
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
