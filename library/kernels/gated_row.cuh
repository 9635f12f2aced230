#pragma once
/// \file
/// What the kernels of a gated norm do with a row: the gate, and vectors at any address.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "library/kernels/forward_row.cuh"
#include "library/kernels/gated.hpp"
#include "library/kernels/row.cuh"

namespace rmsnorm::kernels {

/// Vectors of 16 bytes that a thread keeps of a row.
template <class T>
constexpr int kGatedVectors = kGatedColumns / kSize<T>;

/// 1 / (1 + exp(-z)). Of 16 bits, on the GPU, two of its quick instructions, whose errors are far
/// less than a rounding's, and without those that care for numbers next to 0: for z < -87, it is 0.
template <class T>
__device__ float sigmoid(float z) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 2) {
    constexpr float kLog2OfE = 1.44269504f;
    float power, result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-kLog2OfE * z));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1 + power));
    return result;
  }
#endif
  return 1 / (1 + expf(-z));
}

/// Vector i of a row, of `hidden` columns: a load or, unless kWhole, one for each element. Past the
/// row's end there are zeros.
template <class T, bool kWhole>
__device__ uint4 load_vector(const T* row, int i, int hidden) {
  constexpr int kN = kSize<T>;
  uint4 v = make_uint4(0, 0, 0, 0);
  if constexpr (kWhole) {
    if (i * kN < hidden) v = reinterpret_cast<const uint4*>(row)[i];
  } else {
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      if (i * kN + e < hidden) reinterpret_cast<T*>(&v)[e] = row[i * kN + e];
    }
  }
  return v;
}

/// Stores kSize<T> numbers, each rounded to the nearest, as vector i of a row.
template <class T, bool kWhole>
__device__ void store_vector(T* row, int i, int hidden, const float* number) {
  constexpr int kN = kSize<T>;
  if constexpr (kWhole) {
    if (i * kN < hidden) reinterpret_cast<uint4*>(row)[i] = narrow_all<T>(number);
  } else {
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      if (i * kN + e < hidden) row[i * kN + e] = static_cast<T>(number[e]);
    }
  }
}

/// The weight of x's vector i: ones where there is none.
template <class T, class W, bool kWhole>
__device__ void load_weight(const W* weight, int i, int hidden, uint4* to) {
  constexpr int kParts = sizeof(W) / sizeof(T);
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    to[part] =
        weight == nullptr ? ones<W>() : load_vector<W, kWhole>(weight, i * kParts + part, hidden);
  }
}

/// What its columns are multiplied by: the weight and its bias.
template <class T, class W>
__device__ void factors_of(const uint4* weight, float bias, float* factor) {
#pragma unroll
  for (int part = 0; part < sizeof(W) / sizeof(T); ++part) {
    widen_all<W>(weight[part], factor + part * kSize<W>);
  }
#pragma unroll
  for (int e = 0; e < kSize<T>; ++e) factor[e] += bias;
}

}  // namespace rmsnorm::kernels
