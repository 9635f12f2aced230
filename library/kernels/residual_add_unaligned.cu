// Rows that are not whole vectors, at any address: as forward_unaligned.cu has them, of which two
// tensors are loaded and two stored.
#include <cuda/annotated_ptr>

#include "library/kernels/residual_add_kernels.hpp"
#include "library/kernels/types.hpp"
#include "library/kernels/unaligned_vectors.cuh"

namespace rmsnorm::kernels {
namespace {

/// Is it the kernel for the longest rows?
template <class T, int kVectors>
constexpr bool kIsLongest = kVectors* kSize<T> == kMostUnalignedColumns;

/// The most threads of a block.
template <class T, int kVectors, int kRowThreads>
constexpr int kBlock = kRowThreads > 0           ? kShortRows
                       : kIsLongest<T, kVectors> ? kMaxClusterThreads
                                                 : kMaxUnalignedSumThreads;

/// The threads that an SM is to hold, in whole blocks: with 64 registers each, 80 or 128. Of the
/// longest rows, some of 128 are spilled.
template <class T, int kVectors>
constexpr int kThreadsOnSm = kIsLongest<T, kVectors> ? 512
                             : kVectors > 2          ? 768
                                                     : 1024;

/// Does a thread load its factors together with its vectors? Otherwise registers run short.
template <class T, class W, int kVectors>
constexpr bool kEarly = sizeof(W) == sizeof(T) && kVectors* kSize<T> <= 24;

template <class T, class W, int kVectors, int kRowThreads>
__global__ void __launch_bounds__(
    kBlock<T, kVectors, kRowThreads>, kThreadsOnSm<T, kVectors> / kBlock<T, kVectors, kRowThreads>)
    rms_norm_residual_add_unaligned(const __grid_constant__ ResidualAdd op) {
  constexpr int kLanes = kRowThreads > 0 ? kRowThreads : 32;  // of a row and warp
  constexpr int kN = kSize<T>, kParts = sizeof(W) / sizeof(T);
  constexpr bool kAreEarly = kEarly<T, W, kVectors>;
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const Place place{blockIdx.y, row};
  auto* const y = find<T>(op.y, place);
  auto* const residual = find<T>(op.residual, place);
  const auto* before = residual;  // the same memory: what is loaded
  const auto* x = find<const T>(op.x, place);
  const Rows weights{const_cast<void*>(op.weight), op.weight_outer_stride, op.weight_inner_stride};
  const auto* const weight = op.weight == nullptr ? nullptr : find<const W>(weights, place);
  wait_for_inputs();
  if (kRowThreads == 0 && threadIdx.x == 0) {
    const auto bytes = op.hidden * std::int64_t{sizeof(T)};
    const std::int64_t left = op.inner - row;
    prefetch_ahead(x, op.x.inner_stride, op.prefetch_distance, left, bytes);
    prefetch_ahead(residual, op.residual.inner_stride, op.prefetch_distance, left, bytes);
  }
  const auto policy = op.is_large ? cuda::access_property(cuda::access_property::persisting())
                                  : cuda::access_property();
  x = cuda::associate_access_property(x, policy);
  before = cuda::associate_access_property(before, policy);
  const int hidden = row < op.inner ? op.hidden : 0;
  const int windows = (hidden + kN - 1) / kN;
  const int vectors = max(0, windows - 2);
  const int head = (kN - behind_boundary(y)) % kN;

  const int lane = kRowThreads > 0 ? threadIdx.x : threadIdx.x % 32;
  const int warp = kRowThreads > 0 ? 0 : threadIdx.x / 32;
  const int base = warp * kLanes * kVectors;
  const int begin = base + lane;
  const int end = min(vectors, base + kLanes * kVectors);

  // The ends, as there: the first window of a warp and the row's last two.
  constexpr int kEnds = (3 * kN - 1) / kLanes + 1;  // of a thread
  const int count = warp == 0 ? 3 * kN : base < end ? kN : 0;
  int columns[kEnds];
  T of_end_x[kEnds], of_end_residual[kEnds];  // not yet added: that would wait for them
#pragma unroll
  for (int n = 0; n < kEnds; ++n) {
    const int e = lane + n * kLanes;
    const int col = e + (e < kN ? base : max(0, windows - 3)) * kN;
    columns[n] = e < count && col < hidden ? col : -1;
    of_end_x[n] = columns[n] < 0 ? static_cast<T>(0.0f) : x[col];
    of_end_residual[n] = columns[n] < 0 ? static_cast<T>(0.0f) : before[col];
  }
  const UnalignedVectors<W> of_weight(weight, weight == nullptr ? 0 : head, hidden);
  uint4 factors[kAreEarly ? kVectors : kParts];
  if constexpr (kAreEarly) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = begin + k * kLanes;
      if (i < end) load_weight<T>(weight, of_weight, i, &factors[k]);
    }
  }
  const UnalignedVectors<T> of_x(x, head, hidden), of_residual(before, head, hidden);
  // Vectors that are loaded together: of the longest rows fewer, or registers run short.
  constexpr int kAtOnce = kIsLongest<T, kVectors> ? 2 : kVectors;
  float value[kVectors][kN];  // of x and the residual
#pragma unroll
  for (int first = 0; first < kVectors; first += kAtOnce) {
    uint4 u[kAtOnce], v[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = begin + (first + k) * kLanes;
      u[k] = i < end ? of_x[i] : make_uint4(0, 0, 0, 0);
      v[k] = i < end ? of_residual[i] : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      float other[kN];
      widen_all<T>(u[k], value[first + k]);
      widen_all<T>(v[k], other);
#pragma unroll
      for (int e = 0; e < kN; ++e) value[first + k][e] += other[e];
    }
  }
  let_next_begin();

  float squares[kN] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * kLanes;
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      const bool counts = e < kN - head ? i > base : i + 1 < end;  // else it is one of the ends
      const float counted = counts ? value[k][e] : 0;
      squares[e] += counted * counted;
    }
  }
  float sum = sum_of_window<kLanes, kN>(squares, head, lane);
  float ends[kEnds];
#pragma unroll
  for (int n = 0; n < kEnds; ++n) {
    ends[n] = static_cast<float>(of_end_x[n]) + static_cast<float>(of_end_residual[n]);
    sum += ends[n] * ends[n];
  }
  __shared__ float partial[32];
  const float rstd = rsqrtf(row_sum<kRowThreads>(sum, partial) * op.inverse + op.eps);
  if (kRowThreads > 0) __syncwarp();  // in place, a lane stores where others have loaded

  const bool is_like_y = behind_boundary(residual + head) == 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * kLanes;
    if (i >= end) continue;
    uint4* const w = &factors[kAreEarly ? k : 0];
    if constexpr (!kAreEarly) load_weight<T>(weight, of_weight, i, w);
    const uint4 rounded = narrow_all<T>(value[k]);
    if (is_like_y) {
      reinterpret_cast<uint4*>(residual + head)[i] = rounded;
    } else {
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        residual[head + i * kN + e] = reinterpret_cast<const T*>(&rounded)[e];
      }
    }
    scale_all<T, W>(value[k], rstd, w, op.weight_bias);  // not rounded, in the norm
    reinterpret_cast<uint4*>(y + head)[i] = narrow_all<T>(value[k]);
  }
#pragma unroll
  for (int n = 0; n < kEnds; ++n) {
    const int col = columns[n];
    const bool has_vector = head <= col && col < head + vectors * kN;
    if (col < 0 || has_vector || warp > 0) continue;
    residual[col] = static_cast<T>(ends[n]);
    const float factor = weight == nullptr ? 1 : static_cast<float>(weight[col]) + op.weight_bias;
    y[col] = static_cast<T>(ends[n] * rstd * factor);
  }
}

template <class T, class W>
ResidualAddKernel kernel_for(const ResidualAddPlan& plan) {
  switch (plan.threads) {
    case 4:
      return rms_norm_residual_add_unaligned<T, W, 2, 4>;
    case 8:
      return rms_norm_residual_add_unaligned<T, W, 2, 8>;
    case 16:
      return rms_norm_residual_add_unaligned<T, W, 2, 16>;
    case 32:
      return plan.vectors == 2   ? rms_norm_residual_add_unaligned<T, W, 2, 32>
             : plan.vectors == 3 ? rms_norm_residual_add_unaligned<T, W, 3, 32>
                                 : rms_norm_residual_add_unaligned<T, W, 4, 32>;
  }
  return plan.vectors == 3 ? rms_norm_residual_add_unaligned<T, W, 3, 0>
         : plan.vectors == 4
             ? rms_norm_residual_add_unaligned<T, W, 4, 0>
             : rms_norm_residual_add_unaligned<T, W, kMostUnalignedColumns / kSize<T>, 0>;
}

}  // namespace

ResidualAddKernel residual_add_unaligned_kernel(
    const ResidualAdd& op, const ResidualAddPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    return kernel_for<decltype(x), decltype(weight)>(plan);
  });
}

}  // namespace rmsnorm::kernels
