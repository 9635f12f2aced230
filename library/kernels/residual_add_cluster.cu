// Rows that keep several small blocks busy: the blocks of a cluster share them. x and the residual
// wait in their shared memory, so each byte is read once.
#include "library/kernels/cluster.cuh"
#include "library/kernels/residual_add_kernels.hpp"
#include "library/kernels/residual_add_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// Each thread has kSummingVectors vectors, of which the last may not exist.
template <class T, class W, bool kHasWeight>
__global__ void __launch_bounds__(kMaxClusterThreads, 3)
    rms_norm_residual_add_cluster(const __grid_constant__ ResidualAdd op) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int kWidth = 16 / sizeof(T);
  using V = Vector<T, kWidth>;
  // A bulk copy is quicker where its lines of 128 bytes are lines of shared memory, too.
  extern __shared__ __align__(128) uint4 staged[];
  __shared__ float sums[kMaxCluster * kMaxClusterThreads / 32];
  __shared__ Mbarrier both_are_there;
  __shared__ Mbarrier sums_are_there;

  const int rank = rank_in_cluster();
  const Place place{blockIdx.y, cluster_in_grid()};
  const int begin = rank * op.part;
  const int mine = min(op.part, op.hidden / kWidth - begin);
  const auto* const x = find<const V>(op.x, place) + begin;
  auto* const residual = find<V>(op.residual, place) + begin;
  const auto* __restrict__ weight = static_cast<const Vector<W, kWidth>*>(op.weight) + begin;
  const unsigned bytes = mine * sizeof(V);
  if (blockIdx.x < op.prefetching_blocks && threadIdx.x == 0) {
    prefetch(x, bytes);
    prefetch(residual, bytes);
    const bool is_first = place.inner == 0 && place.outer == 0;
    if (kHasWeight && is_first) prefetch(weight, mine * sizeof(*weight));
  }
  wait_for_inputs();
  auto* const x_staged = reinterpret_cast<V*>(staged);
  V* const residual_staged = x_staged + op.part;
  if (threadIdx.x == 0) {
    init(&sums_are_there);
    init(&both_are_there);
    show_barriers();
    expect(&sums_are_there, op.cluster * op.threads / 32 * sizeof(float));
    expect(&both_are_there, 2 * bytes);
    copy_bulk(x_staged, x, bytes, op.is_large, &both_are_there);
    copy_bulk(residual_staged, residual, bytes, op.is_large, &both_are_there);
  }
  const auto exists = [&](int k, int i) { return k < kSummingVectors - 1 || i < mine; };
  constexpr bool kEarly = sizeof(W) == sizeof(T);  // else registers run short
  Vector<W, kWidth> w[kEarly ? kSummingVectors : 1];
  if constexpr (kHasWeight && kEarly) {
#pragma unroll
    for (int k = 0; k < kSummingVectors; ++k) {
      const int i = threadIdx.x + k * op.threads;
      if (exists(k, i)) w[k] = weight[i];
    }
  }
  __syncthreads();  // both barriers are there
  arrive_at_cluster();
  wait_for_bytes(&both_are_there);
  let_next_begin();

  const auto add = [&](int i, float* sum) {
    const V u = x_staged[i], v = residual_staged[i];
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum[j] = element(u, j) + element(v, j);
  };
  float squares = 0;
#pragma unroll 2
  for (int k = 0; k < kSummingVectors; ++k) {
    const int i = threadIdx.x + k * op.threads;
    if (!exists(k, i)) break;
    float sum[kWidth];
    add(i, sum);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) squares += sum[j] * sum[j];
    residual[i] = rounded<T, kWidth>(sum);
  }
  const float total = cluster_sum(squares, op.threads, op.cluster, rank, sums, &sums_are_there);
  const float rstd = rsqrtf(total * op.inverse + op.eps), bias = op.weight_bias;

  // y may be x, of which each block has read its part.
  auto* __restrict__ y = find<V>(op.y, place) + begin;
#pragma unroll
  for (int k = 0; k < kSummingVectors; ++k) {
    const int i = threadIdx.x + k * op.threads;
    if (!exists(k, i)) break;
    if constexpr (kHasWeight && !kEarly) w[0] = weight[i];
    float value[kWidth];  // the sum is not rounded, in the norm
    add(i, value);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float factor = kHasWeight ? element(w[kEarly ? k : 0], j) + bias : 1;
      value[j] = value[j] * rstd * factor;
    }
    y[i] = rounded<T, kWidth>(value);
  }
#endif
}

}  // namespace

ResidualAddKernel residual_add_cluster_kernel(const ResidualAdd& op) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) -> ResidualAddKernel {
    using T = decltype(x);
    using W = decltype(weight);
    return op.weight != nullptr ? rms_norm_residual_add_cluster<T, W, true>
                                : rms_norm_residual_add_cluster<T, T, false>;
  });
}

}  // namespace rmsnorm::kernels
