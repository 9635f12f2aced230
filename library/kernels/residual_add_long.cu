// Rows that neither registers nor a cluster hold, and those of whole vectors that cannot be moved
// at once, that have weights of heads, or whose cluster the GPU refuses: all is read twice.
#include <cuda/annotated_ptr>

#include "library/kernels/residual_add_kernels.hpp"
#include "library/kernels/residual_add_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// kLong: a block has one row, in vectors of kWidth, and all rows have one weight. Each thread
/// reads again, and then overwrites, what it read before.
///
/// Otherwise a warp has a row, or a block has one. A vector is op.pieces of kWidth, and squares are
/// added in the order in which the kernel for whole vectors adds them: warps do the work of all its
/// warps for a row, one after the other. For the rest, neighbouring threads have neighbouring
/// pieces.
template <class T, class W, int kWidth, bool kLong>
__global__ void __launch_bounds__(kMaxSummingThreads)
    rms_norm_residual_add_long(const __grid_constant__ ResidualAdd op) {
  const Place place{
      blockIdx.y, kLong ? blockIdx.x : blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y};
  const int threads = kLong ? kMaxSummingThreads : op.threads;  // of the other kernel
  const int pieces = kLong ? 1 : op.pieces;
  auto* const y = find<Vector<T, kWidth>>(op.y, place);
  auto* const residual = find<Vector<T, kWidth>>(op.residual, place);
  const auto* const x = find<const Vector<T, kWidth>>(op.x, place);
  const auto* weight = static_cast<const Vector<W, kWidth>*>(op.weight);
  if (!kLong && weight != nullptr) {
    const Rows weights{
        const_cast<void*>(op.weight), op.weight_outer_stride, op.weight_inner_stride};
    weight = find<const Vector<W, kWidth>>(weights, place);
  }
  const auto* before = residual;                          // the same memory: what is loaded
  const auto keep = cuda::access_property::persisting();  // = evict_last
  const auto* const x_to_keep = cuda::associate_access_property(x, keep);
  before = cuda::associate_access_property(before, keep);
  const int end = kLong || place.inner < op.inner ? op.hidden / kWidth : 0;
  wait_for_inputs();
  // The squares of thread t of the block of this rank.
  const auto squares_of_thread = [&](int rank, int t) {
    const int past = kLong ? end : min(end, (rank + 1) * op.part * pieces);
    float squares = 0;
#pragma unroll 4
    for (int first = (rank * op.part + t) * pieces; first < past; first += threads * pieces) {
      for (int i = first; i < first + pieces; ++i) {
        const Vector<T, kWidth> u = x_to_keep[i], v = before[i];
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          const float sum = element(u, j) + element(v, j);
          squares += sum * sum;
        }
      }
    }
    return squares;
  };
  __shared__ float sums[kMaxCluster * kMaxClusterThreads / 32];
  float total;
  if (kLong) {
    const float squares = squares_of_thread(0, threadIdx.x);
    let_next_begin();
    total = row_sum<kMaxSummingThreads>(squares, sums);
  } else if (threads <= 32) {
    total = group_sum(squares_of_thread(0, threadIdx.x), threads);
    let_next_begin();
    __syncwarp();  // a lane stores where others have loaded
  } else {
    total = sum_in_order_of(op.cluster, threads / 32, sums, squares_of_thread);
  }
  const float rstd = rsqrtf(total * op.inverse + op.eps), bias = op.weight_bias;
  for (int i = threadIdx.x; i < end; i += kLong ? kMaxSummingThreads : blockDim.x) {
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

/// The kernel for the plan.
template <class T, class W, int kWidth = 16 / sizeof(T)>
ResidualAddKernel kernel_for(const ResidualAdd& op, const ResidualAddPlan& plan) {
  if constexpr (kWidth > 1)
    if (plan.step < kWidth) return kernel_for<T, W, kWidth / 2>(op, plan);
  return !plan.is_fallback ? rms_norm_residual_add_long<T, W, kWidth, true>
                           : rms_norm_residual_add_long<T, W, kWidth, false>;
}

}  // namespace

ResidualAddKernel residual_add_long_kernel(const ResidualAdd& op, const ResidualAddPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    return kernel_for<decltype(x), decltype(weight)>(op, plan);
  });
}

}  // namespace rmsnorm::kernels
