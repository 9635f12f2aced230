// Exercise 12 - Residual add
// Given      the right sum, normed and stored, but loaded twice: once for the mean, once for y.
// Goal       x crosses global memory once, at most 80 requests a row.
// Within     at most 1 barrier a row, the traffic that the lesson predicts.
// Check it   ./rmsnorm exercise 12
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cuda/annotated_ptr>

#include "lessons/12_residual_add/overlap.cuh"
#include "lessons/12_residual_add/plan.hpp"
#include "lessons/12_residual_add/residual_add.hpp"

namespace rmsnorm::residual_add {
namespace {

/// Sum over the kThreads threads of a row. Every thread gets it.
template <int kThreads>
__device__ float row_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  if constexpr (kThreads > 32) {
    __shared__ float partial[kThreads / 32];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's sum is in partial[]
    value = row_sum<32>(threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0);
  }
  return value;
}

/// Neighbouring elements that move together: 16 bytes if hidden allows it.
template <class T, int kWidth>
struct alignas(kWidth * sizeof(T)) Vector {
  T at[kWidth];
};

/// Where a row begins. In 64 bits: rows * hidden can exceed 2^31.
template <class T, int kWidth>
__device__ Vector<T, kWidth>* find(const Rows& rows, std::int64_t row) {
  T* const begin = static_cast<T*>(rows.data) + row * rows.stride;
  return reinterpret_cast<Vector<T, kWidth>*>(begin);
}

/// Neighbouring numbers, each rounded to the nearest of the type.
template <class T, int kWidth>
__device__ Vector<T, kWidth> rounded(const float* number) {
  Vector<T, kWidth> v;
  for (int j = 0; j < kWidth; ++j) v.at[j] = static_cast<T>(number[j]);
  return v;
}

template <class T, class W, int kWidth, int kThreads, int kColumns>
__global__ void __launch_bounds__(kBlock<kThreads>, kOnSm<kThreads, kColumns>)
    rms_norm_residual_add(const __grid_constant__ Operation op) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  auto* const y = find<T, kWidth>(op.y, row);
  auto* const residual = find<T, kWidth>(op.residual, row);
  const auto* before = residual;  // the same memory: what is loaded
  const auto* x = find<T, kWidth>(op.x, row);
  const auto* weight = static_cast<const Vector<W, kWidth>*>(op.weight);
  const auto keep = cuda::access_property::persisting();  // = evict_last
  before = cuda::associate_access_property(before, keep);
  x = cuda::associate_access_property(x, keep);
  const int end = row < op.rows ? op.hidden / kWidth : 0;
  wait_for_inputs();
  // >>> your turn
  // One vector's columns of x + residual, loaded and added.
  const auto sum_of = [&](int i, float* sum) {
    const Vector<T, kWidth> u = x[i], v = before[i];
    for (int j = 0; j < kWidth; ++j) {
      sum[j] = static_cast<float>(u.at[j]) + static_cast<float>(v.at[j]);
    }
  };
  float squares = 0;
  for (int i = threadIdx.x; i < end; i += kThreads) {
    float sum[kWidth];
    sum_of(i, sum);
    for (const float value : sum) squares += value * value;
  }
  const float mean = row_sum<kThreads>(squares) / op.hidden;
  const float rstd = rsqrtf(mean + op.eps), bias = op.weight_bias;
  for (int i = threadIdx.x; i < end; i += kThreads) {
    float value[kWidth];
    sum_of(i, value);
    residual[i] = rounded<T, kWidth>(value);
    Vector<W, kWidth> w;
    if (weight != nullptr) w = weight[i];
    for (int j = 0; j < kWidth; ++j) {
      float factor = 1;
      if (weight != nullptr) factor = static_cast<float>(w.at[j]) + bias;
      value[j] = value[j] * rstd * factor;
    }
    y[i] = rounded<T, kWidth>(value);
  }
  let_next_begin();
  // <<<
}

/// The kernel for the width and the shape: one of 24 if T has 16 bits.
template <class T, class W, int kWidth = 16 / sizeof(T)>
Kernel kernel_of_width(const Plan& plan) {
  if constexpr (kWidth > 1)
    if (plan.width < kWidth) return kernel_of_width<T, W, kWidth / 2>(plan);
  if (plan.columns == 96) return rms_norm_residual_add<T, W, kWidth, 512, 96>;
  if (plan.threads == 1024) return rms_norm_residual_add<T, W, kWidth, 1024, 16>;
  if (plan.threads == 512) return rms_norm_residual_add<T, W, kWidth, 512, 16>;
  if (plan.threads == 256) return rms_norm_residual_add<T, W, kWidth, 256, 16>;
  if (plan.threads == 128) return rms_norm_residual_add<T, W, kWidth, 128, 16>;
  return rms_norm_residual_add<T, W, kWidth, 32, 16>;
}

const Registration lesson{{
    .slug = "12_residual_add",
    .title = "Residual add",
    .idea = "The sum with the residual and its norm in one kernel, each byte once",
    .regime = "prefill",
    .residual = true,
    .launch = launch,
    .refuses = refuses,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace

Kernel kernel_for(const Operation& op, const Plan& plan) {
  const bool of_fp32 = op.weight_dtype == Dtype::fp32;
  if (op.dtype == Dtype::fp32) return kernel_of_width<float, float>(plan);
  if (op.dtype == Dtype::fp16 && of_fp32) return kernel_of_width<half, float>(plan);
  if (op.dtype == Dtype::fp16) return kernel_of_width<half, half>(plan);
  if (of_fp32) return kernel_of_width<nv_bfloat16, float>(plan);
  return kernel_of_width<nv_bfloat16, nv_bfloat16>(plan);
}

}  // namespace rmsnorm::residual_add
