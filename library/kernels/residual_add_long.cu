// Rows that are longer than a block's registers: x and the residual are read twice.
#include <cuda/annotated_ptr>

#include "library/kernels/residual_add_kernels.hpp"
#include "library/kernels/residual_add_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// A block has one row. Each thread reads again, and then overwrites, what it read before.
template <class T, class W, int kWidth>
__global__ void __launch_bounds__(kMaxSummingThreads)
    rms_norm_residual_add_long(const __grid_constant__ ResidualAdd op) {
  const Place place{blockIdx.y, blockIdx.x};
  auto* const y = find<Vector<T, kWidth>>(op.y, place);
  auto* const residual = find<Vector<T, kWidth>>(op.residual, place);
  const auto* const x = find<const Vector<T, kWidth>>(op.x, place);
  const auto* const weight = static_cast<const Vector<W, kWidth>*>(op.weight);
  const auto* before = residual;                          // the same memory: what is loaded
  const auto keep = cuda::access_property::persisting();  // = evict_last
  const auto* const x_to_keep = cuda::associate_access_property(x, keep);
  before = cuda::associate_access_property(before, keep);
  const int end = op.hidden / kWidth;
  wait_for_inputs();
  float squares = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < end; i += kMaxSummingThreads) {
    const Vector<T, kWidth> u = x_to_keep[i], v = before[i];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float sum = element(u, j) + element(v, j);
      squares += sum * sum;
    }
  }
  let_next_begin();
  __shared__ float partial[32];
  const float mean = row_sum<kMaxSummingThreads>(squares, partial) / op.hidden;
  const float rstd = rsqrtf(mean + op.eps), bias = op.weight_bias;
  for (int i = threadIdx.x; i < end; i += kMaxSummingThreads) {
    const Vector<T, kWidth> u = x[i], v = residual[i];
    Vector<W, kWidth> w;
    if (weight != nullptr) w = weight[i];
    float sum[kWidth];
    float value[kWidth];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      sum[j] = element(u, j) + element(v, j);
      float factor = 1;
      if (weight != nullptr) factor = element(w, j) + bias;
      value[j] = sum[j] * rstd * factor;  // the sum is not rounded, in the norm
    }
    residual[i] = rounded<T, kWidth>(sum);
    y[i] = rounded<T, kWidth>(value);
  }
}

/// The kernel for the width.
template <class T, class W, int kWidth = 16 / sizeof(T)>
ResidualAddKernel kernel_of_width(int width) {
  if constexpr (kWidth > 1)
    if (width < kWidth) return kernel_of_width<T, W, kWidth / 2>(width);
  return rms_norm_residual_add_long<T, W, kWidth>;
}

}  // namespace

ResidualAddKernel residual_add_long_kernel(const ResidualAdd& op, const ResidualAddPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    return kernel_of_width<decltype(x), decltype(weight)>(plan.width);
  });
}

}  // namespace rmsnorm::kernels
