// The sum with a residual and its norm in one kernel: a row in registers, each byte once.
#include <cstdint>
#include <cuda/annotated_ptr>

#include "library/kernels/launch.hpp"
#include "library/kernels/residual_add.hpp"
#include "library/kernels/residual_add_kernels.hpp"
#include "library/kernels/residual_add_plan.hpp"
#include "library/kernels/residual_add_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// Threads of a block, if a row has kThreads.
template <int kThreads>
constexpr int kBlock = kThreads > 32 ? kThreads : 128;

/// The threads that an SM is to hold. Of its 65536 registers, each of 1280 can have 48, of 1024 64,
/// of 512 128. In fp32, what a thread loads fills 48. Turing has no room for more than 1024.
template <class T, int kColumns>
constexpr int threads_on_sm() {
  if (kColumns > 32) return 512;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if (sizeof(T) == 2) return 1280;
#endif
  return 1024;
}

/// Is one block all that an SM holds? Then nothing is on its way while that adds up. In fp32, where
/// a load brings half as many columns, it did not help.
template <class T, int kColumns>
constexpr bool kAsksAhead = kColumns > 32 && sizeof(T) == 2;

template <class T, class W, int kThreads, int kColumns>
__global__ void __launch_bounds__(kBlock<kThreads>, threads_on_sm<T, kColumns>() / kBlock<kThreads>)
    rms_norm_residual_add(const __grid_constant__ ResidualAdd op) {
  constexpr int kWidth = 16 / sizeof(T);
  const auto row = blockIdx.x * std::int64_t{kBlock<kThreads> / kThreads} + threadIdx.y;
  const Place place{blockIdx.y, row};
  auto* const y = find<Vector<T, kWidth>>(op.y, place);
  auto* const residual = find<Vector<T, kWidth>>(op.residual, place);
  const auto* before = residual;  // the same memory: what is loaded
  const auto* x = find<const Vector<T, kWidth>>(op.x, place);
  const auto* weight = static_cast<const Vector<W, kWidth>*>(op.weight);
  const auto policy = op.is_large ? cuda::access_property(cuda::access_property::persisting())
                                  : cuda::access_property();
  before = cuda::associate_access_property(before, policy);
  x = cuda::associate_access_property(x, policy);
  const int end = row < op.inner ? op.hidden / kWidth : 0;
  if (blockIdx.x < op.prefetching_blocks && end > 0 && threadIdx.x == 0) {
    prefetch(find<const void>(op.x, place), end * 16);
    prefetch(residual, end * 16);
    if (row == 0 && blockIdx.y == 0 && weight != nullptr) prefetch(weight, op.hidden * sizeof(W));
  }
  wait_for_inputs();
  if (kAsksAhead<T, kColumns> && threadIdx.x == 0) {
    const auto bytes = op.hidden * std::int64_t{sizeof(T)};
    const std::int64_t left = op.inner - row;
    prefetch_ahead(
        find<const void>(op.x, place), op.x.inner_stride, op.prefetch_distance, left, bytes);
    prefetch_ahead(residual, op.residual.inner_stride, op.prefetch_distance, left, bytes);
  }
  constexpr int kVectors = kColumns / kWidth;  // of a thread
  constexpr bool kEarly = kColumns <= 16;      // else registers run short
  Vector<T, kWidth> u[kVectors] = {};          // of x; zeros past the row
  Vector<T, kWidth> v[kVectors] = {};          // of the residual, likewise
  Vector<W, kWidth> w[kVectors];               // of the weight, if any
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i < end) u[k] = x[i];
    if (i < end) v[k] = before[i];
    if (kEarly && i < end && weight != nullptr) w[k] = weight[i];
  }
  float sum[kColumns];  // of x and the residual
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    sum[k] = element(u[k / kWidth], k % kWidth) + element(v[k / kWidth], k % kWidth);
    squares += sum[k] * sum[k];
  }
  let_next_begin();
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (kEarly && i < end) residual[i] = rounded<T, kWidth>(sum + k * kWidth);
  }
  __shared__ float partial[32];
  const float mean = row_sum<kThreads>(squares, partial) * op.inverse;
  const float rstd = rsqrtf(mean + op.eps), bias = op.weight_bias;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= end) continue;
    float* const value = sum + k * kWidth;  // not rounded, in the norm
    if (!kEarly) residual[i] = rounded<T, kWidth>(value);
    if (!kEarly && weight != nullptr) w[k] = weight[i];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      float factor = 1;
      if (weight != nullptr) factor = element(w[k], j) + bias;
      value[j] = value[j] * rstd * factor;
    }
    y[i] = rounded<T, kWidth>(value);
  }
}

/// The kernel for the shape.
template <class T, class W>
ResidualAddKernel aligned_kernel_for(const ResidualAddPlan& plan) {
  constexpr int kShort = 2 * (16 / sizeof(T));  // columns of a thread
  if (plan.columns == kShort && plan.threads <= 32) {
    switch (plan.threads) {
      case 4:
        return rms_norm_residual_add<T, W, 4, kShort>;
      case 8:
        return rms_norm_residual_add<T, W, 8, kShort>;
      case 16:
        return rms_norm_residual_add<T, W, 16, kShort>;
      default:
        return rms_norm_residual_add<T, W, 32, kShort>;
    }
  }
  if constexpr (sizeof(T) == 2)
    if (plan.columns == 32) return rms_norm_residual_add<T, W, 512, 32>;
  if (plan.columns == 96) return rms_norm_residual_add<T, W, 512, 96>;
  switch (plan.threads) {
    case 32:
      return rms_norm_residual_add<T, W, 32, 16>;
    case 128:
      return rms_norm_residual_add<T, W, 128, 16>;
    case 256:
      return rms_norm_residual_add<T, W, 256, 16>;
    case 512:
      return rms_norm_residual_add<T, W, 512, 16>;
    default:
      return rms_norm_residual_add<T, W, 1024, 16>;
  }
}

ResidualAddKernel kernel_for(const ResidualAdd& op, const ResidualAddPlan& plan) {
  if (plan.is_mixed) return residual_add_mixed_kernel(op, plan);
  if (is_shared(plan)) return residual_add_cluster_kernel(op);
  if (plan.vectors > 0) return residual_add_unaligned_kernel(op, plan);
  if (plan.is_fallback || plan.columns == 0) return residual_add_long_kernel(op, plan);
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    return aligned_kernel_for<decltype(x), decltype(weight)>(plan);
  });
}

/// Bytes of a row that are read.
std::int64_t bytes_read(const ResidualAdd& op) {
  return std::int64_t{2} * op.hidden * bytes_of(op.dtype);
}

cudaError_t launch_plan(ResidualAdd op, const ResidualAddPlan& plan, cudaStream_t stream) {
  op.pieces = plan.width / plan.step;
  op.threads = plan.threads, op.cluster = plan.cluster, op.part = plan.part;
  const ResidualAddKernel kernel = kernel_for(op, plan);
  const std::int64_t blocks = (op.inner + plan.rows - 1) / plan.rows;  // for one outer index
  const std::int64_t outer = op.rows == 0 ? 0 : op.rows / op.inner;
  const int cluster = is_shared(plan) ? plan.cluster : 1;
  op.prefetching_blocks =
      prefetching_blocks(plan.rows * bytes_read(op) / cluster, blocks * cluster * outer);
  return launch_staged(
      kernel, {.x = blocks * cluster, .y = outer, .cluster = cluster},
      dim3(is_shared(plan) ? plan.threads : long_threads(plan), plan.rows),
      is_shared(plan) ? staged_bytes(plan) : 0, stream, op);
}

}  // namespace

cudaError_t launch(const ResidualAdd& given, cudaStream_t stream) {
  ResidualAdd op =
      with_short_outer(given, {&ResidualAdd::x, &ResidualAdd::residual, &ResidualAdd::y});
  op.inverse = 1.0f / static_cast<float>(op.hidden);
  op.prefetch_distance = prefetch_distance(bytes_read(op), op.inner);
  constexpr std::int64_t kMuch = 120'000'000;  // of fewer, the policy makes a launch slower
  op.is_large = bytes_read(op) * op.rows >= kMuch;
  ResidualAddPlan plan = plan_for(op, has_clusters());
  const cudaError_t error = launch_plan(op, plan, stream);
  if (!is_shared(plan) || !is_refused(error)) return error;
  // A part of a GPU may be too small for the cluster: one block does the same, with the same bits.
  cudaGetLastError();
  plan.is_fallback = true;
  return launch_plan(op, plan, stream);
}

}  // namespace rmsnorm::kernels
