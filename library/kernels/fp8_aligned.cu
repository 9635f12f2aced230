// Rows of whole vectors at 16-byte addresses, which the registers of a block hold: each byte once.
#include <algorithm>
#include <type_traits>

#include "library/kernels/forward_row.cuh"
#include "library/kernels/fp8_kernels.hpp"
#include "library/kernels/fp8_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// How many threads share a row, if that is not a number that the compiler knows: plan.threads.
/// Where it is one, they have all vectors of a full row, and there is a weight.
constexpr int kShort = -1;      ///< 4 to 64 of a block of several rows
constexpr int kBlock = 0;       ///< a block
constexpr int kFullBlock = -2;  ///< likewise, of a full row, and there is a weight

template <int kRowThreads>
constexpr bool kIsFull = kRowThreads > 0 || kRowThreads == kFullBlock;

/// Does a block have several rows?
template <int kRowThreads>
constexpr bool kHasRows = kRowThreads == kShort || (kRowThreads > 0 && kRowThreads <= 32);

/// The largest of a row's threads, which have 0 or more each.
template <int kRowThreads>
__device__ float largest_of_row(float value, float* partial, int threads) {
  if constexpr (kRowThreads == kShort) {
    return threads > 32 ? block_reduce<64>(value, partial, threads, Larger())
                        : warp_reduce(value, threads, Larger());
  } else if constexpr (kHasRows<kRowThreads>) {
    return warp_reduce(value, kRowThreads, Larger());
  }
  value = largest_of_warp(value);
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();  // every warp's largest is in partial[]
  return largest_of_warp(lane < threads / 32 ? partial[lane] : 0);
}

/// The sum of a row's threads.
template <int kRowThreads>
__device__ float sum_of_row(float value, float* partial, int threads) {
  if constexpr (kRowThreads == kShort) {
    return threads > 32 ? row_sum<64>(value, partial, threads) : group_sum(value, threads);
  } else if constexpr (kHasRows<kRowThreads>) {
    return group_sum(value, kRowThreads);
  } else {
    return row_sum<0>(value, partial, threads);
  }
}

/// Likewise, of each thread's two numbers: what twice as many threads would have had. They are
/// added in the same order as theirs.
template <int kRowThreads>
__device__ float sum_of_twins(float (&value)[2], float* partial, int threads) {
  if constexpr (kHasRows<kRowThreads> && kRowThreads < 32) {
    return group_sum(value[0] + value[1], kRowThreads);
  }
  const float sum = warp_reduce_each(value, 32, Sum());
  if constexpr (kRowThreads == 32) return sum + __shfl_xor_sync(0xffffffff, sum, 16);
  const int lane = threadIdx.x % 32, warps = threads / 32;
  if (lane % 16 == 0) partial[lane / 16 * warps + threadIdx.x / 32] = sum;
  __syncthreads();  // every warp's two sums are in partial[]
  return group_sum(lane < 2 * warps ? partial[lane] : 0, 32);
}

/// The row of a thread, so many behind that of its block's first threads. These share one
/// address, so the compiler has it computed once for all of a warp.
template <class V>
__device__ V* find_of_thread(const Rows& rows, const Place& first, unsigned in_block) {
  return reinterpret_cast<V*>(find<char>(rows, first) + in_block * rows.inner_stride);
}

/// The most threads of a block.
template <int kRowThreads>
constexpr int kMost = kMaxThreads<kHasRows<kRowThreads> ? 1 : std::max(0, kRowThreads)>;

/// Blocks that an SM is to hold: 1024 threads have 64 registers each. A residual or a second
/// rounding needs more.
template <int kRowThreads, bool kResidual, bool kRounded>
constexpr int kMinBlocks =
    kRowThreads == kShort || kResidual || kRounded ? 1 : 1024 / kMost<kRowThreads>;

/// kRowThreads share a row, and have kVectors of it each.
/// \tparam kRounded  whether the norm is rounded to T, to be stored or for what follows
template <
    class T, class W, int kVectors, int kRowThreads, Scales kScales, bool kResidual, bool kRounded>
__global__ void __launch_bounds__(kMost<kRowThreads>, kMinBlocks<kRowThreads, kResidual, kRounded>)
    rms_norm_fp8_aligned(
        const __grid_constant__ Fp8Norm op,          // the tensors
        const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  constexpr int kElements = kSize<T>;                // of a vector
  constexpr bool kFull = kIsFull<kRowThreads>;
  constexpr bool kTwins = kFull && kVectors == 4 && kRowThreads > 0 && kRowThreads <= 128;
  // The row of the block's first threads. All threads share its address, so that is found once.
  const Place first{blockIdx.y, blockIdx.x * std::int64_t{kHasRows<kRowThreads> ? plan.rows : 1}};
  const std::int64_t left = op.inner - first.inner;
  const bool exists = !kHasRows<kRowThreads> || threadIdx.y < left;
  // A full row that is not there is another one, which is read, and not written.
  const unsigned in_block = !kHasRows<kRowThreads> || (kFull && !exists) ? 0 : threadIdx.y;
  const int end = exists ? op.hidden / kElements : 0;
  const int threads = kRowThreads > 0 ? kRowThreads : plan.threads;
  const auto* row = find_of_thread<const uint4>(op.x, first, in_block);
  auto* const residual = find_of_thread<uint4>(op.residual, first, in_block);
  const auto* weight = find_of_thread<const uint4>(
      {const_cast<void*>(op.weight), op.weight_outer_stride, op.weight_inner_stride}, first,
      in_block);
  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  if (blockIdx.x < plan.prefetching_blocks && threadIdx.x == 0 && end > 0) {
    prefetch(row, end * sizeof(uint4));
    if (kResidual) prefetch(residual, end * sizeof(uint4));
    const bool is_first = first.inner + in_block + blockIdx.y == 0;
    if (is_first && op.weight != nullptr) prefetch(weight, end * kParts * sizeof(uint4));
  }
  wait_for_inputs();
  if (!kTwins && !kHasRows<kRowThreads> && !kResidual && threadIdx.x == 0)
    prefetch_ahead(row, op.x.inner_stride, plan.prefetch_distance, left, end * int{sizeof(uint4)});
  const auto* x = cuda::associate_access_property(row, plan.policy);
  constexpr int kFactors = kVectors * kParts;
  const int end_of_weight = op.weight == nullptr ? 0 : end;
  constexpr bool kEarly = kFactors <= 4;  // registers
  const auto has = [&](int i) { return kFull || i < end; };
  const auto load_factors = [&](int i, uint4* to) {
    if constexpr (kFull) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) to[part] = weight[i * kParts + part];
    } else {
      load_weight<T, W>(weight, i, end_of_weight, to);
    }
  };
  uint4 v[kVectors], r[kVectors], w[kEarly ? kFactors : kParts];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    v[k] = has(i) ? x[i] : make_uint4(0, 0, 0, 0);
  }
  if constexpr (kResidual) {
    const auto* before = cuda::associate_access_property(
        static_cast<const uint4*>(residual), plan.policy);  // the same memory: what is loaded
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = threadIdx.x + k * threads;
      r[k] = i < end ? before[i] : make_uint4(0, 0, 0, 0);
    }
  }
  if constexpr (kEarly) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      load_factors(threadIdx.x + k * threads, &w[k * kParts]);
    }
  }
  const float limit = limit_or_scale(op);
  let_next_begin();

  float value[kVectors][kElements];  // of x or the sum, and then of the norm
  // With twins, the vectors of one are those of even numbers.
  constexpr bool kMayHaveTwins = kVectors == 4 && kRowThreads <= 0 && !kResidual && !kRounded;
  const bool has_twins = kTwins || (kMayHaveTwins && plan.twins == 2);
  float squares_of_thread[2] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if constexpr (kResidual) {
      widen_all<T>(v[k], value[k]);
      float other[kElements], sum = 0;
      widen_all<T>(r[k], other);
#pragma unroll
      for (int j = 0; j < kElements; ++j) {
        value[k][j] += other[j];
        sum += value[k][j] * value[k][j];
      }
      squares_of_thread[0] += sum;
      const int i = threadIdx.x + k * threads;
      if (i < end) residual[i] = narrow_all<T>(value[k]);
    } else {
      squares_of_thread[has_twins && k % 2 == 1] += squares<T>(v[k]);  // as in a forward launch
    }
  }
  __shared__ float partial[32];
  const float sum = has_twins ? sum_of_twins<kRowThreads>(squares_of_thread, partial, threads)
                              : sum_of_row<kRowThreads>(squares_of_thread[0], partial, threads);
  const float rstd = rsqrtf(sum * plan.inverse + op.eps);

  auto* const norm = find_of_thread<uint4>(op.norm, first, in_block);
  float largest[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    uint4* const factors = &w[kEarly ? k * kParts : 0];
    if (!kEarly) load_factors(i, factors);
    if constexpr (!kResidual) widen_all<T>(v[k], value[k]);
    scale_all<T, W>(value[k], rstd, factors, op.weight_bias);
    if constexpr (kRounded) {
      const uint4 stored = narrow_all<T>(value[k]);
      if (op.norm.data != nullptr && i < end) norm[i] = stored;
      if (op.rounds_twice) widen_all<T>(stored, value[k]);
    }
    largest[k] = largest_of<kElements>(value[k]);
  }

  constexpr int kVectorsOfGroup = kScaleGroup / kElements;
  constexpr bool kIsNarrow = kRowThreads > 0 && kRowThreads < kVectorsOfGroup;
  constexpr int kLanes = kIsNarrow ? kRowThreads : kVectorsOfGroup;  // that have a group
  constexpr int kOfLanes = kVectors * kLanes / kVectorsOfGroup;
  constexpr int kGroups =  // of these lanes, at most
      !kIsNarrow      ? (kVectors == 2 ? 2 : 4)
      : kOfLanes == 0 ? 1
                      : kOfLanes;
  const int lanes = kRowThreads == kShort && threads < kLanes ? threads : kLanes;
  const bool is_one_scale = kScales == Scales::row || kGroups == 1 || lanes < kLanes;
  auto* const scales = find_of_thread<char>(op.scale, first, in_block);
  float scale = limit;
  if (kScales != Scales::given && kScales != Scales::powers && is_one_scale) {
    float most = largest[0];
#pragma unroll
    for (int k = 1; k < kVectors; ++k) most = fmaxf(most, largest[k]);
    if constexpr (kScales == Scales::row) {
      __shared__ float partial_largest[32];  // partial[] may still be read
      most = largest_of_row<kRowThreads>(most, partial_largest, threads);
    } else {
      most = warp_reduce(most, lanes, Larger());
    }
    scale = scale_for(most, limit, op.y_dtype);
    if (threadIdx.x == 0 && end > 0) store_scale(op, scales, 0, scale);
  }
  [[maybe_unused]] const PowersOfRow powers(op, scales);
  if (kScales == Scales::powers && end > 0) fill_tiles(op, scales, threadIdx.x, threads);
  auto* const y = find_of_thread<Quantized<kElements>>(op.y, first, in_block);
  const auto store = [&](auto constant) {  // so that its branch is not in the loop
    constexpr Dtype type = decltype(constant)::value;
    constexpr int kPart = kLanes / kGroups;  // lanes that have the scale of a group
    if (kScales == Scales::groups && !is_one_scale) {
      float most[kGroups] = {};
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        const int group = kIsNarrow ? k * kGroups / kVectors : k;
        most[group] = fmaxf(most[group], largest[k]);
      }
      scale = scale_for(warp_reduce_each(most, kLanes, Larger()), limit, type);
      const int group = threadIdx.x % kLanes / kPart;
      const int k = kIsNarrow ? group * (kVectors / kGroups) : group;
      const int i = threadIdx.x / kLanes * kLanes + k * threads;
      if (threadIdx.x % kPart == 0 && i < end) store_scale(op, scales, i / kVectorsOfGroup, scale);
    }
    float inverse;
    if constexpr (kScales == Scales::powers) {
      inverse = reciprocal_of_power(
          choose_powers<kElements>(op, powers, largest, limit, type, threadIdx.x, threads, end));
    } else {
      inverse = kScales == Scales::given ? 1 / scale : reciprocal(scale);
    }
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = threadIdx.x + k * threads;
      float factor = inverse;
      if (kScales == Scales::groups && !is_one_scale) {
        const int group = kIsNarrow ? k * kGroups / kVectors : k;
        factor = __shfl_sync(0xffffffff, inverse, group * kPart, kLanes);
      }
      if constexpr (kScales == Scales::powers) {
        factor = __shfl_sync(
            0xffffffff, inverse, k * kPowerPart<kElements, kVectors>, kScaleBlock / kElements);
      }
      const Quantized<kElements> quantized = quantize<kElements>(value[k], factor, type);
      if (kFull ? exists : i < end) y[i] = quantized;
    }
  };
  if (op.y_dtype == Dtype::e4m3) {
    store(std::integral_constant<Dtype, Dtype::e4m3>());
  } else {
    store(std::integral_constant<Dtype, Dtype::e5m2>());
  }
}

/// The kernel for full rows, or null if it is that for all. Where the compiler knows up to 128
/// threads, they have the work of twins.
template <class T, class W, Scales kScales>
Fp8Kernel full_kernel_for(const ForwardPlan& plan) {
  const int vectors = plan.vectors * plan.twins;
  if (vectors == 2) {
    return plan.threads == 256 ? rms_norm_fp8_aligned<T, W, 2, 256, kScales, false, false>
           : plan.threads < kShortRows
               ? nullptr
               : rms_norm_fp8_aligned<T, W, 2, kFullBlock, kScales, false, false>;
  }
  if (vectors == 3) {
    return plan.threads < kShortRows
               ? nullptr
               : rms_norm_fp8_aligned<T, W, 3, kFullBlock, kScales, false, false>;
  }
  if (plan.twins == 1 && plan.threads == 256)
    return rms_norm_fp8_aligned<T, W, 4, 256, kScales, false, false>;
  switch (plan.twins == 2 ? plan.threads : 0) {
    case 4:
      return rms_norm_fp8_aligned<T, W, 4, 4, kScales, false, false>;
    case 8:
      return rms_norm_fp8_aligned<T, W, 4, 8, kScales, false, false>;
    case 16:
      return rms_norm_fp8_aligned<T, W, 4, 16, kScales, false, false>;
    case 32:
      return rms_norm_fp8_aligned<T, W, 4, 32, kScales, false, false>;
    case 64:
      return rms_norm_fp8_aligned<T, W, 4, 64, kScales, false, false>;
    case 128:
      return rms_norm_fp8_aligned<T, W, 4, 128, kScales, false, false>;
  }
  return rms_norm_fp8_aligned<T, W, 4, kFullBlock, kScales, false, false>;
}

template <class T, class W, bool kResidual, bool kRounded, Scales kScales>
Fp8Kernel kernel_for(const Fp8Norm& op, const ForwardPlan& plan) {
  if constexpr (!kResidual && !kRounded) {
    const Fp8Kernel kernel = is_full(op, plan) ? full_kernel_for<T, W, kScales>(plan) : nullptr;
    if (kernel != nullptr) return kernel;
  }
  if (plan.threads <= kShortRows / 2 && plan.twins == 1) {
    return plan.vectors == 2 ? rms_norm_fp8_aligned<T, W, 2, kShort, kScales, kResidual, kRounded>
                             : rms_norm_fp8_aligned<T, W, 3, kShort, kScales, kResidual, kRounded>;
  }
  const int vectors = plan.vectors * plan.twins;
  return vectors == 2   ? rms_norm_fp8_aligned<T, W, 2, kBlock, kScales, kResidual, kRounded>
         : vectors == 3 ? rms_norm_fp8_aligned<T, W, 3, kBlock, kScales, kResidual, kRounded>
                        : rms_norm_fp8_aligned<T, W, 4, kBlock, kScales, kResidual, kRounded>;
}

template <class T, class W, bool kResidual, bool kRounded>
Fp8Kernel kernel_for(const Fp8Norm& op, const ForwardPlan& plan) {
  switch (op.scales) {
    case Scales::given:
      return kernel_for<T, W, kResidual, kRounded, Scales::given>(op, plan);
    case Scales::row:
      return kernel_for<T, W, kResidual, kRounded, Scales::row>(op, plan);
    case Scales::groups:
      return kernel_for<T, W, kResidual, kRounded, Scales::groups>(op, plan);
    case Scales::powers:
      return kernel_for<T, W, kResidual, kRounded, Scales::powers>(op, plan);
  }
  return nullptr;
}

}  // namespace

Fp8Kernel fp8_aligned_kernel(const Fp8Norm& op, const ForwardPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    if (op.residual.data == nullptr) {
      return is_rounded(op) ? kernel_for<T, W, false, true>(op, plan)
                            : kernel_for<T, W, false, false>(op, plan);
    }
    return is_rounded(op) ? kernel_for<T, W, true, true>(op, plan)
                          : kernel_for<T, W, true, false>(op, plan);
  });
}

}  // namespace rmsnorm::kernels
