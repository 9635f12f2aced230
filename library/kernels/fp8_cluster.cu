// Aligned rows that are longer than a block's registers hold: the blocks of a cluster share them. x
// and the residual wait in their shared memory, and the norm in registers, until its scale is known.
#include "library/kernels/cluster.cuh"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/fp8_kernels.hpp"
#include "library/kernels/fp8_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

constexpr int kVectors = kFp8ClusterVectors;  // of a thread, which need not all exist

template <class T, class W, Scales kScales, bool kResidual>
__global__ void __launch_bounds__(kMaxClusterThreads, 2) rms_norm_fp8_cluster(
    const __grid_constant__ Fp8Norm op,          // the tensors
    const __grid_constant__ ForwardPlan plan) {  // how blocks share them
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int kElements = kSize<T>;            // of a vector
  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  constexpr bool kEarly = kParts == 1;           // else registers run short
  // A bulk copy is quicker where its lines of 128 bytes are lines of shared memory, too.
  extern __shared__ __align__(128) uint4 staged[];
  __shared__ float sums[kMaxCluster * kMaxClusterThreads / 32];
  __shared__ float maxima[kMaxCluster * kMaxClusterThreads / 32];
  __shared__ Mbarrier row_is_there;
  __shared__ Mbarrier sums_are_there;
  __shared__ Mbarrier maxima_are_there;

  const int rank = rank_in_cluster(), threads = plan.threads;
  const Place place{blockIdx.y, cluster_in_grid()};
  const int begin = rank * plan.part;
  const int mine = min(plan.part, op.hidden / kElements - begin);
  const auto* const x = find<const uint4>(op.x, place) + begin;
  auto* const residual = kResidual ? find<uint4>(op.residual, place) + begin : nullptr;
  const Rows weights{const_cast<void*>(op.weight), op.weight_outer_stride, op.weight_inner_stride};
  const auto* weight = find<const uint4>(weights, place) + begin * kParts;
  const unsigned bytes = mine * sizeof(uint4);
  if (blockIdx.x < plan.prefetching_blocks && threadIdx.x == 0) {
    prefetch(x, bytes);
    if (kResidual) prefetch(residual, bytes);
    const bool is_first = place.inner == 0 && place.outer == 0;
    if (op.weight != nullptr && is_first) prefetch(weight, bytes * kParts);
  }
  wait_for_inputs();
  if (threadIdx.x == 0) {
    init(&row_is_there);
    init(&sums_are_there);
    init(&maxima_are_there);
    show_barriers();
    const int bytes_of_sums = plan.cluster * threads / 32 * sizeof(float);
    expect(&sums_are_there, bytes_of_sums);
    if (kScales == Scales::row) expect(&maxima_are_there, bytes_of_sums);
    expect(&row_is_there, kResidual ? 2 * bytes : bytes);
    copy_bulk(staged, x, bytes, plan.is_large, &row_is_there);
    if (kResidual) copy_bulk(staged + plan.part, residual, bytes, plan.is_large, &row_is_there);
  }
  uint4 w[kEarly ? kVectors : 1][kParts];
  const auto load_factors = [&](int k, uint4* to) {
    load_weight<T, W>(weight, threadIdx.x + k * threads, op.weight == nullptr ? 0 : mine, to);
  };
  if constexpr (kEarly) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) load_factors(k, w[k]);
  }
  const float limit = limit_or_scale(op);
  __syncthreads();  // the barriers are there
  arrive_at_cluster();
  wait_for_bytes(&row_is_there);
  let_next_begin();

  float value[kVectors][kElements];  // of x or the sum, and then of the norm
  float squares_of_thread = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    const uint4 v = i < mine ? staged[i] : make_uint4(0, 0, 0, 0);
    widen_all<T>(v, value[k]);
    if constexpr (kResidual) {
      float other[kElements];
      widen_all<T>(i < mine ? staged[plan.part + i] : make_uint4(0, 0, 0, 0), other);
#pragma unroll
      for (int j = 0; j < kElements; ++j) value[k][j] += other[j];
      if (i < mine) residual[i] = narrow_all<T>(value[k]);
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kElements; j += 2)
      sum += value[k][j] * value[k][j] + value[k][j + 1] * value[k][j + 1];
    squares_of_thread += sum;
  }
  wait_for_cluster();  // every block has begun: its barriers are there
  const float sum =
      cluster_reduce(squares_of_thread, threads, plan.cluster, rank, sums, &sums_are_there, Sum());
  const float rstd = rsqrtf(sum * plan.inverse + op.eps);

  auto* const norm = find<uint4>(op.norm, place) + begin;
  float largest[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    uint4* const factors = w[kEarly ? k : 0];
    if constexpr (!kEarly) load_factors(k, factors);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      float factor[kSize<W>];
      widen_all<W>(factors[part], factor);
#pragma unroll
      for (int j = 0; j < kSize<W>; ++j) {
        float& element = value[k][part * kSize<W> + j];
        element = element * rstd * (factor[j] + op.weight_bias);
      }
    }
    if (op.norm.data != nullptr || op.rounds_twice) {
      const uint4 rounded = narrow_all<T>(value[k]);
      if (op.norm.data != nullptr && i < mine) norm[i] = rounded;
      if (op.rounds_twice) widen_all<T>(rounded, value[k]);
    }
    largest[k] = largest_of<kElements>(value[k]);
  }

  constexpr int kLanes = kScaleGroup / kElements;  // that have a group
  constexpr int kPart = kLanes / kVectors;         // of these, that have its scale
  auto* const scales = find<char>(op.scale, place);
  float scale = limit;
  if constexpr (kScales == Scales::row) {
    float most = 0;
#pragma unroll
    for (const float one : largest) most = fmaxf(most, one);
    most = cluster_reduce(most, threads, plan.cluster, rank, maxima, &maxima_are_there, Larger());
    scale = scale_for(most, limit, op.y_dtype);
    if (rank == 0 && threadIdx.x == 0) store_scale(op, scales, 0, scale);
  } else if constexpr (kScales == Scales::groups) {
    scale = scale_for(warp_reduce_each(largest, kLanes, Larger()), limit, op.y_dtype);
    const int i = threadIdx.x / kLanes * kLanes + threadIdx.x % kLanes / kPart * threads;
    if (threadIdx.x % kPart == 0 && i < mine) store_scale(op, scales, (begin + i) / kLanes, scale);
  }
  const float inverse = kScales == Scales::given ? 1 / scale : reciprocal(scale);
  auto* const y = find<Quantized<kElements>>(op.y, place) + begin;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    float factor = inverse;
    if (kScales == Scales::groups) factor = __shfl_sync(0xffffffff, inverse, k * kPart, kLanes);
    const Quantized<kElements> quantized = quantize<kElements>(value[k], factor, op.y_dtype);
    if (i < mine) y[i] = quantized;
  }
#endif
}

template <class T, class W, bool kResidual>
Fp8Kernel kernel_for(const Fp8Norm& op) {
  switch (op.scales) {
    case Scales::given:
      return rms_norm_fp8_cluster<T, W, Scales::given, kResidual>;
    case Scales::row:
      return rms_norm_fp8_cluster<T, W, Scales::row, kResidual>;
    case Scales::groups:
      return rms_norm_fp8_cluster<T, W, Scales::groups, kResidual>;
  }
  return nullptr;
}

}  // namespace

Fp8Kernel fp8_cluster_kernel(const Fp8Norm& op) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    return op.residual.data == nullptr ? kernel_for<T, W, false>(op) : kernel_for<T, W, true>(op);
  });
}

}  // namespace rmsnorm::kernels
