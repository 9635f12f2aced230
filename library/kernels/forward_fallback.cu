// Rows of whole vectors at any address. Their squares are added in the order of the kernel that
// takes such rows at 16-byte addresses, whichever that is: a row's result does not depend on where
// it lies. They are read twice, as most of what was read is still in a cache.
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/types.hpp"
#include "library/kernels/unaligned_vectors.cuh"

namespace rmsnorm::kernels {
namespace {

/// The squares that one thread of the other kernel adds up: thread `t` of the block of this rank.
/// Of a long row, what it keeps in registers comes last.
template <class T>
__device__ float squares_of_thread(
    const UnalignedVectors<T>& x, int vectors, const ForwardPlan& plan, int rank, int t) {
  const int begin = rank * plan.part, end = min(vectors, begin + plan.part);
  const int kept = plan.kind == Kind::long_rows ? min(end, plan.vectors * plan.threads) : 0;
  float sum = 0;
#pragma unroll 4
  for (int i = begin + kept + t; i < end; i += plan.threads) sum += squares<T>(x[i]);
  for (int i = t; i < kept; i += plan.threads) sum += squares<T>(x[i]);
  return sum;
}

/// A block has one row, or several short ones. Its warps do the work of all
/// warps that the other kernel has for a row, one after the other.
template <class T, class W>
__global__ void __launch_bounds__(kMaxFallbackThreads) rms_norm_fallback(
    const __grid_constant__ Forward op,          // the tensors
    const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  const Task task = task_of<true, false>(op, plan, blockIdx.x);
  wait_for_inputs();
  constexpr int kN = kSize<T>, kParts = sizeof(W) / sizeof(T);
  const T* x = find<const T>(task.x, task.place);
  x = cuda::associate_access_property(x, plan.policy);
  const auto* weight = static_cast<const W*>(task.weight);
  auto* y = find<T>(task.y, task.place);
  const int hidden = task.exists ? op.hidden : 0;
  const UnalignedVectors<T> from_begin(x, 0, hidden);
  float sum;
  if (plan.threads <= 32) {
    sum = squares_of_thread(from_begin, hidden / kN, plan, 0, threadIdx.x);
    let_next_begin();
    sum = group_sum(sum, plan.threads);
    __syncwarp();  // in place, a lane stores where others have loaded
  } else {
    __shared__ float sums[kMaxCluster * kMaxClusterThreads / 32];
    const int warps = plan.threads / 32;
    sum = sum_in_order_of(
        plan.cluster, warps, sums + threadIdx.y * warps * plan.cluster,
        [&](int rank, int t) { return squares_of_thread(from_begin, hidden / kN, plan, rank, t); });
  }
  const float rstd = rsqrtf(sum * plan.inverse + op.eps);
  store_rstd(task, rstd);

  // Vectors where y's memory has them; the columns before and behind them one by one.
  const int head = min(hidden, (kN - behind_boundary(y)) % kN);
  const int vectors = (hidden - head) / kN;
  const UnalignedVectors<T> of_x(x, head, hidden);
  const UnalignedVectors<W> of_weight(weight, weight == nullptr ? 0 : head, hidden);
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    uint4 w[kParts];
    load_weight<T>(weight, of_weight, i, w);
    reinterpret_cast<uint4*>(y + head)[i] = scaled<T, W>(of_x[i], rstd, w, op.weight_bias);
  }
  for (int e = threadIdx.x; e < hidden - vectors * kN; e += blockDim.x) {
    const int col = e < head ? e : e + vectors * kN;
    const float factor = weight == nullptr ? 1 : static_cast<float>(weight[col]);
    y[col] = static_cast<T>(static_cast<float>(x[col]) * rstd * (factor + op.weight_bias));
  }
}

}  // namespace

ForwardKernel fallback_kernel(const Forward& op) {
  return with_types(op.dtype, op.weight_dtype, [](auto x, auto weight) -> ForwardKernel {
    return rms_norm_fallback<decltype(x), decltype(weight)>;
  });
}

}  // namespace rmsnorm::kernels
