// Rows that no block and no cluster can keep: their means, before their parts are worked on.
#include "library/kernels/backward_kernels.hpp"
#include "library/kernels/backward_row.cuh"
#include "library/kernels/launch.hpp"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// The mean of g * n of every row. Each has a block.
template <class T, int kSize, bool kAny>
__global__ void row_means(
    const __grid_constant__ Backward op,  // x and dy are read once, here, the weight once a row
    float* __restrict__ means,            // (rows, heads)  written once
    const __grid_constant__ BackwardPlan plan) {  // for kAny: where they lie
  const int vectors = op.hidden / kSize;
  const Place place = place_of<false>(blockIdx.x, op.rows, op.inner);
  const unsigned head = kAny ? blockIdx.z : 0;
  using V = const Vector<T, kSize>;
  V* __restrict__ x =
      kAny ? find_any<V>(op.x, plan.x_further, place, plan.period, head) : find<V>(op.x, place);
  V* __restrict__ dy =
      kAny ? find_any<V>(op.dy, plan.dy_further, place, plan.period, head) : find<V>(op.dy, place);
  const unsigned row = kAny ? blockIdx.x * gridDim.z + head : blockIdx.x;
  wait_for_inputs();
  const float r = op.rstd[row];
  float sum = 0;
#pragma unroll 2
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    auto v = x[i];
    auto d = kAny && plan.dy_is_expanded
                 ? repeated<Vector<T, kSize>, T, kSize>(*reinterpret_cast<const T*>(dy))
                 : dy[i];
    float factor[kSize];
    load_factors<T, kAny>(factor, op, head * plan.weight_head, i);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      sum += float(element<T>(d, e)) * factor[e] * (float(element<T>(v, e)) * r);
    }
  }
  __shared__ float partial[32];
  sum = row_sum<kMaxBlock>(sum, partial);
  if (threadIdx.x == 0) means[row] = sum * plan.inverse;
}

template <class T, int kSize>
auto kernel_for(Variant variant) {
  return variant == Variant::any ? row_means<T, kSize, true> : row_means<T, kSize, false>;
}

}  // namespace

cudaError_t launch_row_means(
    const NestedBackward& op, const BackwardPlan& plan, cudaStream_t stream) {
  if (plan.shape.parts == 1 || plan.shape.is_cluster) return cudaSuccess;
  const auto kernel = with_type(op.dtype, [&](auto x) {
    using T = decltype(x);
    const Variant variant = variant_of(op);
    return plan.shape.size == 1 ? kernel_for<T, 1>(variant)
                                : kernel_for<T, 16 / sizeof(T)>(variant);
  });
  return launch_overlapping(
      kernel, {.x = op.rows, .z = op.heads}, kMaxBlock, 0, stream, op, plan.means, plan);
}

}  // namespace rmsnorm::kernels
