// A norm with a gate in one kernel: three streams, each byte once where a block holds the row.
#include <cstdint>
#include <cuda/annotated_ptr>

#include "library/kernels/gated_row.cuh"
#include "library/kernels/launch.hpp"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// The most threads of a block: short rows share one of 128.
template <int kRowThreads>
constexpr int kBlock = kRowThreads > 0 ? kShortRows : kMaxGatedThreads;

/// kRowThreads share a row; if that is 0, a block. If kWhole, all rows are whole vectors at 16-byte
/// addresses. The order of additions is the same if they are not.
template <class T, class W, int kRowThreads, bool kWhole>
__global__ void __launch_bounds__(kBlock<kRowThreads>, 1024 / kBlock<kRowThreads>)
    rms_norm_gated(const __grid_constant__ Gated op) {
  constexpr int kVectors = kGatedVectors<T>, kN = kSize<T>;
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const int threads = kRowThreads > 0 ? kRowThreads : blockDim.x;
  const Place place{blockIdx.y, row};
  const auto* x = find<const T>(op.x, place);
  const auto* z = find<const T>(op.z, place);
  const Rows weights{const_cast<void*>(op.weight), op.weight_outer_stride, op.weight_inner_stride};
  const auto* const weight = op.weight == nullptr ? nullptr : find<const W>(weights, place);
  const int hidden = row < op.inner ? op.hidden : 0;
  if (kWhole && blockIdx.x < op.prefetching_blocks && hidden > 0 && threadIdx.x == 0) {
    prefetch(x, hidden * sizeof(T));
    prefetch(z, hidden * sizeof(T));
    if (row == 0 && weight != nullptr) prefetch(weight, hidden * sizeof(W));
  }
  wait_for_inputs();
  const auto policy = op.is_large ? cuda::access_property(cuda::access_property::persisting())
                                  : cuda::access_property();
  x = cuda::associate_access_property(x, policy);
  z = cuda::associate_access_property(z, policy);

  uint4 of_x[kVectors], of_z[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    of_x[k] = load_vector<T, kWhole>(x, i, hidden);
    of_z[k] = load_vector<T, kWhole>(z, i, hidden);
  }
  let_next_begin();
  // What is normed, and what its norm is multiplied by, for each column of a vector.
  const auto gate = [&](const uint4& v, const uint4& g, float* value, float* factor) {
    widen_all<T>(v, value);
    widen_all<T>(g, factor);
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      const float silu = factor[e] * sigmoid<T>(factor[e]);
      value[e] = op.gates_first ? value[e] * silu : value[e];
      factor[e] = op.gates_first ? 1 : silu;
    }
  };
  float sum = 0, value[kVectors][kN], factor[kVectors][kN];
  const auto add_squares = [&](const float* number) {
#pragma unroll
    for (int e = 0; e < kN; ++e) sum += number[e] * number[e];
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    gate(of_x[k], of_z[k], value[k], factor[k]);
    add_squares(value[k]);
  }
  const int kept = kVectors * threads, vectors = (hidden + kN - 1) / kN;
  const auto each_other = [&](auto function) {  // vector, which the thread reads twice
    if constexpr (kRowThreads == 0) {
      for (int i = threadIdx.x + kept; i < vectors; i += threads) {
        float number[kN], more[kN];
        gate(
            load_vector<T, kWhole>(x, i, hidden), load_vector<T, kWhole>(z, i, hidden), number,
            more);
        function(i, number, more);
      }
    }
  };
  each_other([&](int, const float* number, const float*) { add_squares(number); });
  __shared__ float partial[32];
  const float rstd = rsqrtf(row_sum<kRowThreads>(sum, partial) * op.inverse + op.eps);

  auto* const y = find<T>(op.y, place);
  const auto store = [&](int i, float* number, const float* more) {
    float w[kN];
    load_multipliers<T, W, kWhole>(weight, i, hidden, op.weight_bias, w);
    if (op.rounds_twice) {
      const auto rounded = [](float v) { return static_cast<float>(static_cast<T>(v)); };
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        number[e] = rounded(number[e] * rstd) * w[e];
        if (sizeof(W) == sizeof(T)) number[e] = rounded(number[e]);
        number[e] *= more[e];
      }
    } else {
#pragma unroll
      for (int e = 0; e < kN; ++e) number[e] = number[e] * rstd * w[e] * more[e];
    }
    store_vector<T, kWhole>(y, i, hidden, number);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) store(threadIdx.x + k * threads, value[k], factor[k]);
  each_other(store);
}

using GatedKernel = void (*)(Gated);

template <class T, class W, bool kWhole>
GatedKernel kernel_for(int threads) {
  switch (threads) {
    case 4:
      return rms_norm_gated<T, W, 4, kWhole>;
    case 8:
      return rms_norm_gated<T, W, 8, kWhole>;
    case 16:
      return rms_norm_gated<T, W, 16, kWhole>;
    case 32:
      return rms_norm_gated<T, W, 32, kWhole>;
  }
  return rms_norm_gated<T, W, 0, kWhole>;
}

/// Are all rows whole vectors of 16 bytes, at 16-byte addresses?
bool are_whole(const Gated& op) {
  std::uintptr_t bits = address_bits({op.x, op.z, op.y}) | op.step_bits;
  bits |= reinterpret_cast<std::uintptr_t>(op.weight) | op.weight_outer_stride;
  bits |= op.weight_inner_stride | static_cast<std::uintptr_t>(op.hidden) * bytes_of(op.dtype);
  return bits % 16 == 0;
}

}  // namespace

cudaError_t launch(const Gated& given, cudaStream_t stream) {
  Gated op = with_short_outer(given, {&Gated::x, &Gated::z, &Gated::y});
  op.inverse = 1.0f / static_cast<float>(op.hidden);
  const std::int64_t row_bytes = std::int64_t{2} * op.hidden * bytes_of(op.dtype);
  constexpr std::int64_t kMuch = 250'000'000;  // as with a residual, which reads as many bytes
  op.is_large = row_bytes * op.rows >= kMuch;
  const int threads = gated_threads(op.hidden), rows = threads <= 32 ? kShortRows / threads : 1;
  const std::int64_t blocks = (op.inner + rows - 1) / rows;
  const std::int64_t outer = op.rows == 0 ? 0 : op.rows / op.inner;
  op.prefetching_blocks = prefetching_blocks(rows * row_bytes, blocks * outer);
  const GatedKernel kernel = with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    return are_whole(op) ? kernel_for<T, W, true>(threads) : kernel_for<T, W, false>(threads);
  });
  return launch_overlapping(kernel, {.x = blocks, .y = outer}, dim3(threads, rows), 0, stream, op);
}

}  // namespace rmsnorm::kernels
