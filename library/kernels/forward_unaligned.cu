// Rows of any length at any address: vectors where memory has them, the ends apart. The order of
// additions does not depend on the address, so neither does a row's result.
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/types.hpp"
#include "library/kernels/unaligned_vectors.cuh"

namespace rmsnorm::kernels {
namespace {

/// Which bits of a vector belong to its first elements, of so many bytes.
struct Front {
  unsigned mask[4];

  __device__ explicit Front(int bytes) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int own = bytes - 4 * j;  // of this word; an element has 2 or 4
      mask[j] = own <= 0 ? 0 : own == 2 ? 0xffff : 0xffffffff;
    }
  }

  /// A vector with zeros for its first elements or for the others, unless all bits of `front` or
  /// of `others` are set.
  __device__ uint4 of(const uint4& v, unsigned front, unsigned others) const {
    return make_uint4(
        v.x & (others | mask[0]) & (front | ~mask[0]),
        v.y & (others | mask[1]) & (front | ~mask[1]),
        v.z & (others | mask[2]) & (front | ~mask[2]),
        v.w & (others | mask[3]) & (front | ~mask[3]));
  }
};

/// All bits, if a number is negative; else none.
__device__ unsigned if_negative(int number) {
  return static_cast<unsigned>(number >> 31);
}

/// Adds the square of each element of a vector to a sum of its own.
template <class T>
__device__ void add_squares(const uint4& v, float* sums) {
#pragma unroll
  for (int i = 0; i < kSize<T> / 2; ++i) {
    const float2 pair = widen(reinterpret_cast<const Pair<T>*>(&v)[i]);
    sums[2 * i] += pair.x * pair.x;
    sums[2 * i + 1] += pair.y * pair.y;
  }
}

/// The most threads of a block.
template <int kRowThreads>
constexpr int kBlock = kRowThreads > 0 ? kShortRows : kMaxUnalignedThreads;

/// Does a thread load its factors together with its vectors of x? Where a factor has more bytes
/// than an element, registers run short.
template <class T, class W>
constexpr bool kEarly = sizeof(W) == sizeof(T);

/// The threads that an SM is to hold, in whole blocks: with 64 registers each or, if factors are
/// late, 48. Turing has room for no more than 1024.
template <bool kAreEarly>
constexpr int threads_on_sm() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if (!kAreEarly) return 1280;
#endif
  return 1024;
}

/// Window i of a row is its columns i * kN to i * kN + kN - 1. Vector i of y
/// begins where memory has one, `head` columns further on. All windows but
/// the last two have a vector, at whatever address the row begins.
template <class T, class W, int kVectors, int kRowThreads, bool kPlain>
__global__ void __launch_bounds__(
    kBlock<kRowThreads>, threads_on_sm<kEarly<T, W>>() / kBlock<kRowThreads>)
    rms_norm_unaligned(
        const __grid_constant__ Forward op,          // the tensors
        const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  constexpr bool kAreEarly = kEarly<T, W>;
  constexpr bool kMayBeLong = kRowThreads == 0 && kVectors == 4;  // rows of any length
  const Task task = task_of<(kRowThreads > 0), kPlain>(op, plan, blockIdx.x);
  wait_for_inputs();
  constexpr int kLanes = kRowThreads > 0 ? kRowThreads : 32;  // of a row and warp
  constexpr int kN = kSize<T>, kParts = sizeof(W) / sizeof(T);
  const T* x = find<const T>(task.x, task.place);
  if (kPlain && kRowThreads == 0 && threadIdx.x == 0) {
    const Tensor& tensor = op.tensors[0];
    const auto bytes = op.hidden * std::int64_t{sizeof(T)};
    prefetch_ahead(x, tensor.x.inner_stride, plan.prefetch_distance, tensor.rows - task.row, bytes);
  }
  x = cuda::associate_access_property(x, plan.policy);
  const auto* weight = static_cast<const W*>(task.weight);
  auto* y = find<T>(task.y, task.place);
  const int hidden = task.exists ? op.hidden : 0;
  const int windows = (hidden + kN - 1) / kN;
  const int vectors = max(0, windows - 2);
  const int head = (kN - behind_boundary(y)) % kN;

  // A warp has neighbouring vectors, plan.rounds for each lane. Registers
  // keep the first kVectors of a lane; the others are read twice.
  const int lane = kRowThreads > 0 ? threadIdx.x : threadIdx.x % 32;
  const int warp = kRowThreads > 0 ? 0 : threadIdx.x / 32;
  const int base = warp * kLanes * plan.rounds;
  const int begin = base + lane;
  const int end = min(vectors, base + kLanes * plan.rounds);

  // The ends, the first window and the last two, go element by element. So
  // does every other warp's first window, but for the sum alone.
  constexpr int kEnds = (3 * kN - 1) / kLanes + 1;  // of a thread
  const int count = warp == 0 ? 3 * kN : base < end ? kN : 0;
  T ends[kEnds];
  int columns[kEnds];
#pragma unroll
  for (int n = 0; n < kEnds; ++n) {
    const int e = lane + n * kLanes;
    columns[n] = e + (e < kN ? base : max(0, windows - 3)) * kN;
    if (e >= count || columns[n] >= hidden) columns[n] = -1;
    ends[n] = columns[n] < 0 ? static_cast<T>(0.0f) : x[columns[n]];
  }

  const UnalignedVectors<T> of_x(x, head, hidden);
  uint4 v[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * kLanes;
    v[k] = i < end ? of_x[i] : make_uint4(0, 0, 0, 0);
  }
  const UnalignedVectors<W> of_weight(weight, weight == nullptr ? 0 : head, hidden);
  const auto end_factor = [&](int col) {
    return weight == nullptr ? 1 : static_cast<float>(weight[col]);
  };
  uint4 factors[kAreEarly ? kVectors : kParts];
  float end_factors[kEnds];
  if constexpr (kAreEarly) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = begin + k * kLanes;
      if (i < end) load_weight<T>(weight, of_weight, i, &factors[k]);
    }
#pragma unroll
    for (int n = 0; n < kEnds; ++n) {
      if (columns[n] >= 0) end_factors[n] = end_factor(columns[n]);
    }
  }
  let_next_begin();

  // The sum is one of windows, or a row's result would depend on its address.
  const Front front((kN - head) * sizeof(T));
  float sums[kN] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {  // without what is of window base and of window end
    const int i = begin + k * kLanes;
    const unsigned all = 0xffffffff;
    const uint4 own = front.of(v[k], k > 0 ? all : if_negative(-lane), if_negative(i + 1 - end));
    add_squares<T>(own, sums);
  }
  if (kMayBeLong) {
    for (int i = begin + kVectors * kLanes; i < end; i += kLanes) {
      add_squares<T>(front.of(of_x[i], 0xffffffff, if_negative(i + 1 - end)), sums);
    }
  }
  float sum = sum_of_window<kLanes, kN>(sums, head, lane);
#pragma unroll
  for (const T element : ends) {
    const float value = static_cast<float>(element);
    sum += value * value;
  }
  __shared__ float partial[32];
  const float mean = row_sum<kRowThreads>(sum, partial) * plan.inverse;
  const float rstd = rsqrtf(mean + op.eps);
  if constexpr (!kPlain) store_rstd(task, rstd);
  if (kRowThreads > 0) __syncwarp();  // in place, a lane stores where others have loaded

  const auto put = [&](int i, const uint4& u, const uint4* w) {
    reinterpret_cast<uint4*>(y + head)[i] = scaled<T, W>(u, rstd, w, op.weight_bias);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * kLanes;
    uint4* const w = &factors[kAreEarly ? k : 0];
    if (i >= end) continue;
    if constexpr (!kAreEarly) load_weight<T>(weight, of_weight, i, w);
    put(i, v[k], w);
  }
  if (kMayBeLong) {
    for (int i = begin + kVectors * kLanes; i < end; i += kLanes) {
      load_weight<T>(weight, of_weight, i, factors);
      put(i, of_x[i], factors);
    }
  }
#pragma unroll
  for (int n = 0; n < kEnds; ++n) {
    const int col = columns[n];
    const bool has_vector = head <= col && col < head + vectors * kN;
    if (col < 0 || has_vector || warp > 0) continue;
    const float factor = kAreEarly ? end_factors[n] : end_factor(col);
    y[col] = static_cast<T>(static_cast<float>(ends[n]) * rstd * (factor + op.weight_bias));
  }
}

template <class T, class W, bool kPlain>
ForwardKernel kernel_for(const ForwardPlan& plan) {
  switch (plan.threads) {
    case 4:
      return rms_norm_unaligned<T, W, 2, 4, kPlain>;
    case 8:
      return rms_norm_unaligned<T, W, 2, 8, kPlain>;
    case 16:
      return rms_norm_unaligned<T, W, 2, 16, kPlain>;
    case 32:
      return plan.vectors == 2   ? rms_norm_unaligned<T, W, 2, 32, kPlain>
             : plan.vectors == 3 ? rms_norm_unaligned<T, W, 3, 32, kPlain>
                                 : rms_norm_unaligned<T, W, 4, 32, kPlain>;
  }
  return plan.vectors == 3 ? rms_norm_unaligned<T, W, 3, 0, kPlain>
                           : rms_norm_unaligned<T, W, 4, 0, kPlain>;
}

}  // namespace

ForwardKernel unaligned_kernel(const Forward& op, const ForwardPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    return plan.is_plain ? kernel_for<T, W, true>(plan) : kernel_for<T, W, false>(plan);
  });
}

}  // namespace rmsnorm::kernels
