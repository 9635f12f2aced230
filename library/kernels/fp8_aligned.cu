// Rows of whole vectors at 16-byte addresses, which the registers of a block hold: each byte once.
#include <type_traits>

#include "library/kernels/forward_row.cuh"
#include "library/kernels/fp8_kernels.hpp"
#include "library/kernels/fp8_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// How many threads share a row: plan.threads, 4 to 64 of a block of several rows; plan.threads, a
/// block; or a block of so many.
constexpr int kShort = -1, kBlock = 0;

/// The largest of a row's threads, which have 0 or more each.
template <int kRowThreads>
__device__ float largest_of_row(float value, float* partial, int threads) {
  if constexpr (kRowThreads == kShort) {
    return threads > 32 ? row_fold<64>(value, partial, threads, Larger())
                        : group_fold(value, threads, Larger());
  }
  value = largest_of_warp(value);
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();  // every warp's largest is in partial[]
  return largest_of_warp(lane < threads / 32 ? partial[lane] : 0);
}

/// The sum of a row's threads: of a thread's two numbers, if these are what twice as many threads
/// would have had. It is added in the same order as theirs.
template <int kRowThreads, bool kTwins>
__device__ float sum_of_row(float (&of_thread)[2], float* partial, int threads) {
  if constexpr (kRowThreads == kShort) {
    return threads > 32 ? row_sum<64>(of_thread[0], partial, threads)
                        : group_sum(of_thread[0], threads);
  } else if constexpr (!kTwins) {
    return row_sum<kRowThreads>(of_thread[0], partial, threads);
  } else {
    const float sum = fold_each(of_thread, 32, Sum());
    const int lane = threadIdx.x % 32, warps = threads / 32;
    if (lane % 16 == 0) partial[lane / 16 * warps + threadIdx.x / 32] = sum;
    __syncthreads();  // every warp's two sums are in partial[]
    if constexpr (kRowThreads == 128) return group_sum(partial[lane % 8], 8);
    return group_sum(lane < 2 * warps ? partial[lane] : 0, 32);
  }
}

/// The elements of a vector in fp32.
template <class T>
__device__ void widen_all(const uint4& v, float* number) {
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) {
    const float2 pair = widen(reinterpret_cast<const Pair<T>*>(&v)[i]);
    number[2 * i] = pair.x;
    number[2 * i + 1] = pair.y;
  }
}

/// The same, each rounded to the nearest.
template <class T>
__device__ uint4 narrow_all(const float* number) {
  uint4 v;
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) {
    reinterpret_cast<Pair<T>*>(&v)[i] = narrow<T>({number[2 * i], number[2 * i + 1]});
  }
  return v;
}

/// The most threads of a block.
template <int kRowThreads>
constexpr int kMost = kMaxThreads<(kRowThreads == kShort ? 1 : kRowThreads)>;

/// Blocks that an SM is to hold: 1024 threads have 64 registers each. A residual or a second
/// rounding needs more.
template <int kRowThreads, bool kResidual, bool kRounded>
constexpr int kMinBlocks =
    kRowThreads == kShort || kResidual || kRounded ? 1 : 2 * 512 / kMost<kRowThreads>;

/// kRowThreads share a row, and have kVectors of it each.
/// \tparam kRounded  whether the norm is rounded to T, to be stored or for what follows
template <
    class T, class W, int kVectors, int kRowThreads, Scales kScales, bool kResidual, bool kRounded>
__global__ void __launch_bounds__(kMost<kRowThreads>, kMinBlocks<kRowThreads, kResidual, kRounded>)
    rms_norm_fp8_aligned(
        const __grid_constant__ Fp8Norm op,          // the tensors
        const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  constexpr int kElements = kSize<T>;                // of a vector
  constexpr bool kIsShort = kRowThreads == kShort;
  const std::int64_t number =
      kIsShort ? blockIdx.x * std::int64_t{plan.rows} + threadIdx.y : blockIdx.x;
  const Place place{blockIdx.y, number};
  const int end = !kIsShort || number < op.inner ? op.hidden / kElements : 0;
  const int threads = kRowThreads > 0 ? kRowThreads : plan.threads;
  const auto* row = find<const uint4>(op.x, place);
  auto* const residual = find<uint4>(op.residual, place);
  const auto* weight = reinterpret_cast<const uint4*>(
      static_cast<const char*>(op.weight) + place.outer * op.weight_outer_stride +
      place.inner * op.weight_inner_stride);
  const int end_of_weight = op.weight == nullptr ? 0 : end;
  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  if (plan.is_small && threadIdx.x == 0 && end > 0) {
    prefetch(row, end * sizeof(uint4));
    if (kResidual) prefetch(residual, end * sizeof(uint4));
    const bool is_first = number == 0 && blockIdx.y == 0;
    if (is_first && op.weight != nullptr) prefetch(weight, end * kParts * sizeof(uint4));
  }
  wait_for_inputs();
  const auto* x = cuda::associate_access_property(row, plan.policy);
  constexpr int kFactors = kVectors * kParts;
  constexpr bool kEarly = kFactors <= 4;  // registers
  uint4 v[kVectors], r[kVectors], w[kEarly ? kFactors : kParts];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    v[k] = i < end ? x[i] : make_uint4(0, 0, 0, 0);
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
      load_weight<T, W>(weight, threadIdx.x + k * threads, end_of_weight, &w[k * kParts]);
    }
  }
  const float limit = limit_or_scale(op);
  let_next_begin();

  float value[kVectors][kElements];  // of x or the sum, and then of the norm
  // With twins, the vectors of one are those of even numbers.
  constexpr bool kMayTwin = kVectors == 4 && kRowThreads == kBlock && !kResidual;
  const bool has_twins = kRowThreads == 128 || (kMayTwin && plan.twins == 2);
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
  const float sum = has_twins ? sum_of_row<kRowThreads, true>(squares_of_thread, partial, threads)
                              : sum_of_row<kRowThreads, false>(squares_of_thread, partial, threads);
  const float rstd = rsqrtf(sum * plan.inverse + op.eps);

  auto* const norm = find<uint4>(op.norm, place);
  float largest[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    uint4* const factors = &w[kEarly ? k * kParts : 0];
    if (!kEarly) load_weight<T, W>(weight, i, end_of_weight, factors);
    if constexpr (!kResidual) widen_all<T>(v[k], value[k]);
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
    if constexpr (kRounded) {
      const uint4 stored = narrow_all<T>(value[k]);
      if (op.norm.data != nullptr && i < end) norm[i] = stored;
      if (op.rounds_twice) widen_all<T>(stored, value[k]);
    }
    largest[k] = largest_of<kElements>(value[k]);
  }

  constexpr int kLanes = kScaleGroup / kElements;  // that have a group
  const int lanes = kIsShort && threads < kLanes ? threads : kLanes;
  const bool is_one_scale = kScales == Scales::row || (kIsShort && lanes < kLanes);
  float scale = limit;
  if (kScales != Scales::given && is_one_scale) {
    float most = largest[0];
#pragma unroll
    for (int k = 1; k < kVectors; ++k) most = fmaxf(most, largest[k]);
    if constexpr (kScales == Scales::row) {
      __shared__ float partial_largest[32];  // partial[] may still be read
      most = largest_of_row<kRowThreads>(most, partial_largest, threads);
    } else {
      most = group_fold(most, lanes, Larger());
    }
    scale = scale_for(most, limit, op.y_dtype);
    if (threadIdx.x == 0 && end > 0) store_scale(op, place, 0, scale);
  }
  auto* const y = find<Codes<kElements>>(op.y, place);
  const auto store = [&](auto constant) {  // so that its branch is not in the loop
    constexpr Dtype type = decltype(constant)::value;
    constexpr bool kHasGroups = kScales == Scales::groups;
    constexpr int kEach = kVectors == 2 ? 2 : 4;  // lanes of a group that have a scale
    if (kHasGroups && !is_one_scale) {
      float most[kEach] = {};
#pragma unroll
      for (int k = 0; k < kVectors; ++k) most[k] = largest[k];
      scale = scale_for(fold_each(most, kLanes, Larger()), limit, type);
      constexpr int kPart = kLanes / kEach;
      const int k = threadIdx.x % kLanes / kPart;  // the vector whose group it is
      const int i = threadIdx.x / kLanes * kLanes + k * threads;
      if (threadIdx.x % kPart == 0 && i < end) store_scale(op, place, i / kLanes, scale);
    }
    const float inverse = kScales == Scales::given ? 1 / scale : reciprocal(scale);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = threadIdx.x + k * threads;
      float factor = inverse;
      if (kHasGroups && !is_one_scale) {
        factor = __shfl_sync(0xffffffff, inverse, k * (kLanes / kEach), kLanes);
      }
      const Codes<kElements> codes = codes_of<kElements>(value[k], factor, type);
      if (i < end) y[i] = codes;
    }
  };
  if (op.y_dtype == Dtype::e4m3) {
    store(std::integral_constant<Dtype, Dtype::e4m3>());
  } else {
    store(std::integral_constant<Dtype, Dtype::e5m2>());
  }
}

template <class T, class W, Scales kScales, bool kResidual, bool kRounded>
Fp8Kernel kernel_for(const ForwardPlan& plan) {
  const bool has_twins = plan.twins == 2;
  if (!has_twins && plan.threads <= kShortRows / 2)
    return rms_norm_fp8_aligned<T, W, 2, kShort, kScales, kResidual, kRounded>;
  const int vectors = plan.vectors * plan.twins;
  if constexpr (!kResidual) {  // of 4096 and 8192 columns: a number that the compiler knows
    if (has_twins && plan.threads == 128)
      return rms_norm_fp8_aligned<T, W, 4, 128, kScales, kResidual, kRounded>;
    if (vectors == 4 && plan.threads == 256)
      return rms_norm_fp8_aligned<T, W, 4, 256, kScales, kResidual, kRounded>;
  }
  return vectors == 2   ? rms_norm_fp8_aligned<T, W, 2, kBlock, kScales, kResidual, kRounded>
         : vectors == 3 ? rms_norm_fp8_aligned<T, W, 3, kBlock, kScales, kResidual, kRounded>
                        : rms_norm_fp8_aligned<T, W, 4, kBlock, kScales, kResidual, kRounded>;
}

template <class T, class W, bool kResidual, bool kRounded>
Fp8Kernel kernel_for(const Fp8Norm& op, const ForwardPlan& plan) {
  switch (op.scales) {
    case Scales::given:
      return kernel_for<T, W, Scales::given, kResidual, kRounded>(plan);
    case Scales::row:
      return kernel_for<T, W, Scales::row, kResidual, kRounded>(plan);
    case Scales::groups:
      return kernel_for<T, W, Scales::groups, kResidual, kRounded>(plan);
  }
  return nullptr;
}

}  // namespace

Fp8Kernel fp8_aligned_kernel(const Fp8Norm& op, const ForwardPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    const bool is_rounded = op.rounds_twice || op.norm.data != nullptr;
    if (op.residual.data == nullptr) {
      return is_rounded ? kernel_for<T, W, false, true>(op, plan)
                        : kernel_for<T, W, false, false>(op, plan);
    }
    return is_rounded ? kernel_for<T, W, true, true>(op, plan)
                      : kernel_for<T, W, true, false>(op, plan);
  });
}

}  // namespace rmsnorm::kernels
