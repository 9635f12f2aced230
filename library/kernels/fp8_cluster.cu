// Aligned rows that are longer than a block's registers hold: the blocks of a cluster share them. x
// and the residual wait in their shared memory, and the norm is made again when its scale is known:
// with so few registers, an SM has room for 1536 threads.
#include <type_traits>

#include "library/kernels/cluster.cuh"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/fp8_kernels.hpp"
#include "library/kernels/fp8_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

constexpr int kVectors = kFp8ClusterVectors;  // of a thread, which need not all exist

/// \tparam kRounded  whether the norm is rounded to T, to be stored or for what follows
template <class T, class W, Scales kScales, bool kResidual, bool kRounded>
__global__ void __launch_bounds__(kMaxClusterThreads, 3) rms_norm_fp8_cluster(
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
  const int slots = threads * kVectors;  // of a tensor's vectors
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
    if (kResidual) copy_bulk(staged + slots, residual, bytes, plan.is_large, &row_is_there);
  }
  uint4 w[kEarly ? kVectors : 1][kParts];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    if (i < mine) continue;
    staged[i] = {};  // past the row, zeros take part
    if (kResidual) staged[slots + i] = {};
  }
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

  // The elements of vector k, or the sums with the residual.
  const auto add = [&](int k, float* value) {
    const int i = threadIdx.x + k * threads;
    widen_all<T>(staged[i], value);
    if constexpr (kResidual) {
      float other[kElements];
      widen_all<T>(staged[slots + i], other);
#pragma unroll
      for (int j = 0; j < kElements; ++j) value[j] += other[j];
    }
  };
  float squares_of_thread = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    float value[kElements], sum = 0;
    add(k, value);
#pragma unroll
    for (int j = 0; j < kElements; j += 2) sum += value[j] * value[j] + value[j + 1] * value[j + 1];
    squares_of_thread += sum;
    const int i = threadIdx.x + k * threads;
    if (kResidual && i < mine) residual[i] = narrow_all<T>(value);
  }
  const float sum =
      cluster_sum(squares_of_thread, threads, plan.cluster, rank, sums, &sums_are_there);
  const float rstd = rsqrtf(sum * plan.inverse + op.eps);

  // The norm of vector k, and what it is rounded to, if it is stored or rounded.
  const auto norm_of = [&](int k, float* value, uint4* rounded) {
    add(k, value);
    uint4* const factors = w[kEarly ? k : 0];
    if constexpr (!kEarly) load_factors(k, factors);
    scale_all<T, W>(value, rstd, factors, op.weight_bias);
    if constexpr (kRounded) {
      *rounded = narrow_all<T>(value);
      if (op.rounds_twice) widen_all<T>(*rounded, value);
    }
  };

  const int lanes =  // that share a scale
      (kScales == Scales::powers ? op.power_columns : kScaleGroup) / kElements;
  auto* const scales = find<char>(op.scale, place);
  auto* const norm = find<uint4>(op.norm, place) + begin;
  auto* const y = find<Quantized<kElements>>(op.y, place) + begin;
  float scale = limit;
  if constexpr (kScales == Scales::row) {
    float most = 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      float value[kElements];
      uint4 rounded;
      norm_of(k, value, &rounded);
      most = fmaxf(most, largest_of<kElements>(value));
    }
    most = cluster_reduce(most, threads, plan.cluster, rank, maxima, &maxima_are_there, Larger());
    scale = scale_for(most, limit, op.y_dtype);
    if (rank == 0 && threadIdx.x == 0) store_scale(op, scales, 0, scale);
  }
  if (kScales == Scales::powers && rank == 0) fill_tiles(op, scales, threadIdx.x, threads);
  const auto store = [&](auto constant) {  // so that its branch is not in the loop
    constexpr Dtype type = decltype(constant)::value;
    float inverse = kScales == Scales::given ? 1 / scale : reciprocal(scale);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = threadIdx.x + k * threads;
      float value[kElements];
      uint4 rounded = {};
      norm_of(k, value, &rounded);
      if constexpr (kScales == Scales::groups || kScales == Scales::powers) {
        const float largest = warp_reduce(largest_of<kElements>(value), lanes, Larger());
        const bool is_first = threadIdx.x % lanes == 0 && i < mine;
        if constexpr (kScales == Scales::groups) {
          scale = scale_for(largest, limit, type);
          inverse = reciprocal(scale);
          if (is_first) store_scale(op, scales, (begin + i) / lanes, scale);
        } else {
          scale = power_for(largest, limit, type);
          inverse = reciprocal_of_power(scale);
          if (is_first) store_power(op, scales, (begin + i) / lanes, scale);
        }
      }
      const Quantized<kElements> quantized = quantize<kElements>(value, inverse, type);
      if (i >= mine) continue;
      if (kRounded && op.norm.data != nullptr) norm[i] = rounded;
      y[i] = quantized;
    }
  };
  if (op.y_dtype == Dtype::e4m3) {
    store(std::integral_constant<Dtype, Dtype::e4m3>());
  } else {
    store(std::integral_constant<Dtype, Dtype::e5m2>());
  }
#endif
}

template <class T, class W, bool kResidual, bool kRounded>
Fp8Kernel kernel_for(const Fp8Norm& op) {
  switch (op.scales) {
    case Scales::given:
      return rms_norm_fp8_cluster<T, W, Scales::given, kResidual, kRounded>;
    case Scales::row:
      return rms_norm_fp8_cluster<T, W, Scales::row, kResidual, kRounded>;
    case Scales::groups:
      return rms_norm_fp8_cluster<T, W, Scales::groups, kResidual, kRounded>;
    case Scales::powers:
      return rms_norm_fp8_cluster<T, W, Scales::powers, kResidual, kRounded>;
  }
  return nullptr;
}

}  // namespace

Fp8Kernel fp8_cluster_kernel(const Fp8Norm& op) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    if (op.residual.data == nullptr) {
      return is_rounded(op) ? kernel_for<T, W, false, true>(op)
                            : kernel_for<T, W, false, false>(op);
    }
    return is_rounded(op) ? kernel_for<T, W, true, true>(op) : kernel_for<T, W, true, false>(op);
  });
}

}  // namespace rmsnorm::kernels
