// Aligned rows that are longer than a block's registers hold, or that hold a residual, too: the
// blocks of a cluster share them. x and the residual wait in their shared memory.
#include <type_traits>

#include "library/kernels/cluster.cuh"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/fp8_kernels.hpp"
#include "library/kernels/fp8_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

constexpr int kVectors = kFp8ClusterVectors;  // of a thread, which need not all exist

/// Does a thread keep the norm until the row's scale is known?
template <Scales kScales>
constexpr bool kKeeps = kScales == Scales::row;

/// The largest blocks that an SM is to hold: threads that keep the norm, or have a residual, need
/// more registers.
template <Scales kScales, bool kResidual>
constexpr int kMinBlocks = kKeeps<kScales> || kResidual ? 2 : 3;

/// \tparam kRounded  whether the norm is rounded to T, to be stored or for what follows
/// \tparam kSplit  whether the blocks are one of more threads, split: each has its threads' vectors
template <class T, class W, Scales kScales, bool kResidual, bool kRounded, bool kSplit>
__global__ void __launch_bounds__(kMaxClusterThreads, kMinBlocks<kScales, kResidual>)
    rms_norm_fp8_cluster(
        const __grid_constant__ Fp8Norm op,          // the tensors
        const __grid_constant__ ForwardPlan plan) {  // how blocks share them
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int kElements = kSize<T>;            // of a vector
  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  constexpr bool kHasRegisters = kMinBlocks<kScales, kResidual> == 2 || kScales == Scales::given;
  constexpr bool kEarly = kParts == 1 && kHasRegisters;  // else factors are loaded when needed
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
  const int vectors = op.hidden / kElements;  // of the row
  const int begin = rank * plan.part;
  const int stride = kSplit ? plan.stride : threads;
  const auto of_thread = [&](int k) { return begin + int(threadIdx.x) + k * stride; };
  const auto slot_of = [&](int k) { return int(threadIdx.x) + k * threads; };
  const int end = !kSplit ? min(vectors, begin + plan.part) : of_thread(0) < stride ? vectors : 0;
  // Calls what it is given for neighbouring vectors of the block: of which slot, which, and how
  // many bytes.
  const auto for_each_run = [&](auto function) {
    for (int k = 0; k < (kSplit ? kVectors : 1); ++k) {
      const int first = begin + k * stride;
      const int count = kSplit ? min(threads, min(stride - begin, vectors - first)) : end - begin;
      if (count > 0) function(k * threads, first, count * unsigned{sizeof(uint4)});
    }
  };
  const auto* const x = find<const uint4>(op.x, place);
  auto* const residual = kResidual ? find<uint4>(op.residual, place) : nullptr;
  const Rows weights{const_cast<void*>(op.weight), op.weight_outer_stride, op.weight_inner_stride};
  const auto* weight = find<const uint4>(weights, place);
  if (blockIdx.x < plan.prefetching_blocks && threadIdx.x == 0) {
    for_each_run([&](int, int first, unsigned bytes) {
      prefetch(x + first, bytes);
      if (kResidual) prefetch(residual + first, bytes);
      const bool is_first = place.inner == 0 && place.outer == 0;
      if (op.weight != nullptr && is_first) prefetch(weight + first * kParts, bytes * kParts);
    });
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
    unsigned all = 0;
    for_each_run([&](int, int, unsigned bytes) { all += kResidual ? 2 * bytes : bytes; });
    expect(&row_is_there, all);
    for_each_run([&](int slot, int first, unsigned bytes) {
      uint4* const to = staged + slot;
      copy_bulk(to, x + first, bytes, plan.is_large, &row_is_there);
      if (kResidual) copy_bulk(to + slots, residual + first, bytes, plan.is_large, &row_is_there);
    });
  }
  uint4 w[kEarly ? kVectors : 1][kParts];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (of_thread(k) < end) continue;
    staged[slot_of(k)] = {};  // past the row, zeros take part
    if (kResidual) staged[slots + slot_of(k)] = {};
  }
  const auto load_factors = [&](int k, uint4* to) {
    load_weight<T, W>(weight, of_thread(k), op.weight == nullptr ? 0 : end, to);
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
    widen_all<T>(staged[slot_of(k)], value);
    if constexpr (kResidual) {
      float other[kElements];
      widen_all<T>(staged[slots + slot_of(k)], other);
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
    for (int j = 0; j < kElements; j += 2) {
      if (kSplit) {  // as in the block of more threads
        sum += value[j] * value[j];
        sum += value[j + 1] * value[j + 1];
      } else {
        sum += value[j] * value[j] + value[j + 1] * value[j + 1];
      }
    }
    squares_of_thread += sum;
    if (kResidual && of_thread(k) < end) residual[of_thread(k)] = narrow_all<T>(value);
  }
  const float sum =
      cluster_sum(squares_of_thread, threads, plan.cluster, rank, sums, &sums_are_there);
  const float rstd = rsqrtf(sum * plan.inverse + op.eps);

  // The norm of vector k, as y is made of it.
  const auto norm_of = [&](int k, float* value) {
    add(k, value);
    uint4* const factors = w[kEarly ? k : 0];
    if constexpr (!kEarly) load_factors(k, factors);
    scale_all<T, W>(value, rstd, factors, op.weight_bias);
    if (kRounded && op.rounds_twice) widen_all<T>(narrow_all<T>(value), value);
  };

  constexpr int kLanes = kScaleGroup / kElements;  // that have a group
  auto* const scales = find<char>(op.scale, place);
  auto* const norm = find<uint4>(op.norm, place);
  auto* const y = find<Quantized<kElements>>(op.y, place);
  float kept[kKeeps<kScales> ? kVectors : 1][kElements];
  float scale = limit;
  if constexpr (kScales == Scales::row) {
    float most = 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      norm_of(k, kept[k]);
      most = fmaxf(most, largest_of<kElements>(kept[k]));
    }
    most = cluster_reduce(most, threads, plan.cluster, rank, maxima, &maxima_are_there, Larger());
    scale = scale_for(most, limit, op.y_dtype);
    if (rank == 0 && threadIdx.x == 0) store_scale(op, scales, 0, scale);
  }
  [[maybe_unused]] const PowersOfRow powers(op, scales);
  if (kScales == Scales::powers && rank == 0) fill_tiles(op, scales, threadIdx.x, threads);
  const auto store = [&](auto constant) {  // so that its branch is not in the loop
    constexpr Dtype type = decltype(constant)::value;
    float inverse = kScales == Scales::given ? 1 / scale : reciprocal(scale);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = of_thread(k);
      float* const value = kept[kKeeps<kScales> ? k : 0];
      if constexpr (!kKeeps<kScales>) norm_of(k, value);
      const float largest[] = {largest_of<kElements>(value)};
      if constexpr (kScales == Scales::groups) {
        scale = scale_for(warp_reduce(largest[0], kLanes, Larger()), limit, type);
        inverse = reciprocal(scale);
        if (i % kLanes == 0 && i < end) store_scale(op, scales, i / kLanes, scale);
      } else if constexpr (kScales == Scales::powers) {
        inverse = reciprocal_of_power(
            choose_powers<kElements>(op, powers, largest, limit, type, i, 0, end));
      }
      const Quantized<kElements> quantized = quantize<kElements>(value, inverse, type);
      if (i >= end) continue;
      if (kRounded && op.norm.data != nullptr) norm[i] = narrow_all<T>(value);
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

template <class T, class W, bool kResidual, bool kRounded, bool kSplit>
Fp8Kernel kernel_for(const Fp8Norm& op) {
  switch (op.scales) {
    case Scales::given:
      return rms_norm_fp8_cluster<T, W, Scales::given, kResidual, kRounded, kSplit>;
    case Scales::row:
      return rms_norm_fp8_cluster<T, W, Scales::row, kResidual, kRounded, kSplit>;
    case Scales::groups:
      return rms_norm_fp8_cluster<T, W, Scales::groups, kResidual, kRounded, kSplit>;
    case Scales::powers:
      return rms_norm_fp8_cluster<T, W, Scales::powers, kResidual, kRounded, kSplit>;
  }
  return nullptr;
}

}  // namespace

Fp8Kernel fp8_cluster_kernel(const Fp8Norm& op, const ForwardPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    const auto for_residual = [&]<bool kResidual, bool kSplit>(
                                  std::bool_constant<kResidual>, std::bool_constant<kSplit>) {
      return is_rounded(op) ? kernel_for<T, W, kResidual, true, kSplit>(op)
                            : kernel_for<T, W, kResidual, false, kSplit>(op);
    };
    if (op.residual.data == nullptr) return for_residual(std::false_type(), std::false_type());
    return is_split(plan) ? for_residual(std::true_type(), std::true_type())
                          : for_residual(std::true_type(), std::false_type());
  });
}

}  // namespace rmsnorm::kernels
