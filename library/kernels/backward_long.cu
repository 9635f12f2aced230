// Rows that no block can keep in its registers: their means, before their parts are worked on.
#include "library/kernels/backward_kernels.hpp"
#include "library/kernels/backward_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// The mean of g * n of every row. Each has a block.
template <class T, int kSize>
__global__ void row_means(
    const __grid_constant__ Backward op,  // x and dy are read once, here, the weight once a row
    float* __restrict__ means) {          // (rows)  written once
  const int vectors = op.hidden / kSize;
  const Place place = place_of<false>(blockIdx.x, op.rows, op.inner);
  const auto* __restrict__ x = find<const Vector<T, kSize>>(op.x, place);
  const auto* __restrict__ dy = find<const Vector<T, kSize>>(op.dy, place);
  const float r = op.rstd[blockIdx.x];
  float sum = 0;
#pragma unroll 2
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    auto v = x[i];
    auto d = dy[i];
    float factor[kSize];
    load_factors<T>(factor, op.weight, op.weight_dtype, i, op.weight_bias);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      sum += float(element<T>(d, e)) * factor[e] * (float(element<T>(v, e)) * r);
    }
  }
  __shared__ float partial[32];
  sum = row_sum<kMaxBlock>(sum, partial);
  if (threadIdx.x == 0) means[blockIdx.x] = sum / op.hidden;
}

}  // namespace

cudaError_t launch_row_means(const Backward& op, const BackwardPlan& plan, cudaStream_t stream) {
  if (plan.shape.parts == 1 || op.rows == 0) return cudaSuccess;
  const auto kernel = with_type(op.dtype, [&](auto x) {
    using T = decltype(x);
    return plan.shape.size == 1 ? row_means<T, 1> : row_means<T, 16 / sizeof(T)>;
  });
  kernel<<<op.rows, kMaxBlock, 0, stream>>>(op, plan.means);
  return cudaGetLastError();
}

}  // namespace rmsnorm::kernels
