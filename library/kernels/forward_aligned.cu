// Rows of whole vectors at 16-byte addresses, which the registers of a block hold.
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// kRowThreads share a row; if that is 0, a block. kPlain: one tensor, rows
/// at one distance.
template <class T, class W, int kVectors, int kRowThreads, bool kPlain>
__global__ void __launch_bounds__(kMaxThreads<kRowThreads>) rms_norm_aligned(
    const __grid_constant__ Forward op,          // the tensors
    const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  const Task task =
      task_of<(kRowThreads > 0 && kRowThreads < kShortRows), kPlain>(op, plan, blockIdx.x);
  const auto* row = find<const uint4>(task.x, task.place);
  const auto* weight = static_cast<const uint4*>(task.weight);
  const int threads = kRowThreads > 0 ? kRowThreads : plan.threads;
  const int end = task.exists ? op.hidden / kSize<T> : 0;

  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  if (blockIdx.x < plan.prefetching_blocks && threadIdx.x == 0)
    prefetch_row(task, row, weight, end, weight == nullptr ? 0 : end * kParts);
  wait_for_inputs();
  const auto* x = cuda::associate_access_property(row, plan.policy);
  const int end_of_weight = weight == nullptr ? 0 : end;
  constexpr int kFactors = kVectors * kParts;
  constexpr bool kEarly = kFactors <= 2 || kFactors == 4 || kRowThreads == 32;  // registers
  uint4 v[kVectors], w[kEarly ? kFactors : kParts];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    v[k] = i < end ? x[i] : make_uint4(0, 0, 0, 0);
  }
  if constexpr (kEarly) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      load_weight<T, W>(weight, threadIdx.x + k * threads, end_of_weight, &w[k * kParts]);
    }
  }
  let_next_begin();
  float sum = 0;
#pragma unroll
  for (const uint4& u : v) sum += squares<T>(u);
  __shared__ float partial[32];
  const float mean = row_sum<kRowThreads>(sum, partial, threads) * plan.inverse;
  const float rstd = rsqrtf(mean + op.eps);
  if constexpr (!kPlain) store_rstd(task, rstd);
  auto* y = find<uint4>(task.y, task.place);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    uint4* const factors = &w[kEarly ? k * kParts : 0];
    if (!kEarly) load_weight<T, W>(weight, i, end_of_weight, factors);
    if (i < end) y[i] = scaled<T, W>(v[k], rstd, factors, op.weight_bias);
  }
}

template <class T, class W, bool kPlain>
ForwardKernel kernel_for(const ForwardPlan& plan) {
  switch (plan.threads) {
    case 4:
      return rms_norm_aligned<T, W, 2, 4, kPlain>;
    case 8:
      return rms_norm_aligned<T, W, 2, 8, kPlain>;
    case 16:
      return rms_norm_aligned<T, W, 2, 16, kPlain>;
    case 32:
      return plan.vectors == 2 ? rms_norm_aligned<T, W, 2, 32, kPlain>
                               : rms_norm_aligned<T, W, 3, 32, kPlain>;
    case 64:
      return rms_norm_aligned<T, W, 2, 64, kPlain>;
  }
  if constexpr (kPlain)  // of 8192 columns: in decode, a number that the compiler knows is worth it
    if (plan.threads == 256 && plan.vectors == 4) return rms_norm_aligned<T, W, 4, 256, kPlain>;
  return plan.vectors == 2   ? rms_norm_aligned<T, W, 2, 0, kPlain>
         : plan.vectors == 3 ? rms_norm_aligned<T, W, 3, 0, kPlain>
                             : rms_norm_aligned<T, W, 4, 0, kPlain>;
}

}  // namespace

ForwardKernel aligned_kernel(const Forward& op, const ForwardPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    return plan.is_plain ? kernel_for<T, W, true>(plan) : kernel_for<T, W, false>(plan);
  });
}

}  // namespace rmsnorm::kernels
