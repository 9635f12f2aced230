#pragma once
/// \file
/// What the forward kernels do with a row: vectors of 16 bytes, wherever they lie.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "library/kernels/forward_plan.hpp"
#include "library/kernels/row.cuh"

namespace rmsnorm::kernels {

/// The row of a thread, and where it lies.
struct Task {
  bool exists;         ///< false in the last block's places to spare
  std::int64_t row;    ///< its number in its tensor
  Place place;         ///< likewise
  Rows x, y;           ///< of its tensor
  const void* weight;  ///< likewise; null: all ones
  float* rstd;         ///< likewise; null: unwanted
};

/// The task of the calling thread. A block has plan.rows rows, or a cluster of blocks, all with
/// this number, has one; the first blocks are those of tensors[0].
template <bool kIsShort, bool kPlain>
__device__ Task task_of(const Forward& op, const ForwardPlan& plan, unsigned number) {
  const bool is_second = !kPlain && number >= plan.first_blocks;
  const Tensor& first = op.tensors[0];
  const Tensor& second = op.tensors[1];
  const std::int64_t block = number - (is_second ? plan.first_blocks : 0);
  const std::int64_t row = kIsShort ? block * plan.rows + threadIdx.y : block;
  const std::int64_t rows = is_second ? second.rows : first.rows;
  const std::int64_t inner = is_second ? second.inner : first.inner;
  Task task{
      !kIsShort || row < rows,
      row,
      place_of<kIsShort>(row, rows, kPlain ? rows : inner),
      is_second ? second.x : first.x,
      is_second ? second.y : first.y,
      is_second ? second.weight : first.weight,
      is_second ? second.rstd : first.rstd};
  if constexpr (!kPlain) {
    const std::int64_t head = is_second ? plan.weight_head[1] : plan.weight_head[0];
    task.weight = static_cast<const char*>(task.weight) + task.place.inner * head;
  }
  return task;
}

/// Prefetch, by one thread before the wait, of its part of a row and of the weight, in vectors of
/// 16 bytes. Of the rows that share a weight, the first is enough.
__device__ inline void prefetch_row(
    const Task& task, const uint4* x, const uint4* weight, int vectors, int vectors_of_weight) {
  if (vectors > 0) prefetch(x, vectors * sizeof(uint4));
  if (task.row == 0 && vectors_of_weight > 0) prefetch(weight, vectors_of_weight * sizeof(uint4));
}

/// Stores the row's rstd, if it is wanted.
__device__ inline void store_rstd(const Task& task, float rstd) {
  if (task.rstd != nullptr && task.exists && threadIdx.x == 0) task.rstd[task.row] = rstd;
}

/// How many elements a vector has.
template <class T>
constexpr int kSize = 16 / sizeof(T);

/// Two neighbours in memory.
template <class T>
using Pair = std::conditional_t<
    std::is_same_v<T, float>, float2,
    std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>>;

__device__ inline float2 widen(float2 pair) {
  return pair;
}
__device__ inline float2 widen(__half2 pair) {
  return __half22float2(pair);
}
/// A bf16 is the upper half of a float. (From __bfloat1622float2, nvcc makes an instruction more.)
__device__ inline float2 widen(__nv_bfloat162 pair) {
  const unsigned bits = reinterpret_cast<const unsigned&>(pair);
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000)};
}

/// Rounds to the nearest.
template <class T>
__device__ Pair<T> narrow(float2 pair) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float22half2_rn(pair);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __floats2bfloat162_rn(pair.x, pair.y);
  } else {
    return pair;
  }
}

/// A vector of ones.
template <class T>
__device__ uint4 ones() {
  uint4 v;
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) reinterpret_cast<Pair<T>*>(&v)[i] = narrow<T>({1, 1});
  return v;
}

/// The weight of x's vector number i: where there is none, ones.
template <class T, class W>
__device__ void load_weight(const uint4* weight, int i, int end, uint4* to) {
  constexpr int kParts = sizeof(W) / sizeof(T);
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    to[part] = ones<W>();
    if (i < end) to[part] = weight[i * kParts + part];
  }
}

/// The sum of a vector's squares.
template <class T>
__device__ float squares(const uint4& v) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) {
    const float2 pair = widen(reinterpret_cast<const Pair<T>*>(&v)[i]);
    sum += pair.x * pair.x + pair.y * pair.y;
  }
  return sum;
}

/// The elements of a vector in fp32.
template <class T>
__device__ void widen_all(const uint4& v, float* number) {
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) {
    const float2 pair = widen(reinterpret_cast<const Pair<T>*>(&v)[i]);
    number[2 * i] = pair.x;
    number[2 * i + 1] = pair.y;
  }
}

/// The same, each rounded to the nearest.
template <class T>
__device__ uint4 narrow_all(const float* number) {
  uint4 v;
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) {
    reinterpret_cast<Pair<T>*>(&v)[i] = narrow<T>({number[2 * i], number[2 * i + 1]});
  }
  return v;
}

/// The elements of a vector times rstd times the weight and its bias, in fp32.
template <class T, class W>
__device__ void scale_all(float* number, float rstd, const uint4* weight, float bias) {
#pragma unroll
  for (int part = 0; part < sizeof(W) / sizeof(T); ++part) {
    float factor[kSize<W>];
    widen_all<W>(weight[part], factor);
#pragma unroll
    for (int j = 0; j < kSize<W>; ++j) {
      float& element = number[part * kSize<W> + j];
      element = element * rstd * (factor[j] + bias);
    }
  }
}

/// A vector times rstd times the weight and its bias, rounded once.
template <class T, class W>
__device__ uint4 scaled(const uint4& v, float rstd, const uint4* weight, float bias) {
  uint4 result;
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) {
    const float2 x = widen(reinterpret_cast<const Pair<T>*>(&v)[i]);
    const float2 w = widen(reinterpret_cast<const Pair<W>*>(weight)[i]);
    const float2 y = {x.x * rstd * (w.x + bias), x.y * rstd * (w.y + bias)};
    reinterpret_cast<Pair<T>*>(&result)[i] = narrow<T>(y);
  }
  return result;
}

}  // namespace rmsnorm::kernels
