// A norm with a gate in one kernel: three streams, each byte once where a block holds the row.
#include <cstdint>

#include "library/kernels/gated_row.cuh"
#include "library/kernels/launch.hpp"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// The most threads of a block: short rows share one of 128.
template <int kRowThreads>
constexpr int kBlock = kRowThreads > 0 ? kShortRows : kMaxGatedThreads;

/// kRowThreads share a row; if that is 0, a block. If kWhole, all rows are whole vectors at 16-byte
/// addresses. The order of additions is the same if they are not. kFirst: as in the operation.
template <class T, class W, int kRowThreads, bool kWhole, bool kFirst>
__global__ void __launch_bounds__(kBlock<kRowThreads>, 1024 / kBlock<kRowThreads>)
    rms_norm_gated(const __grid_constant__ Gated op) {
  constexpr int kVectors = kGatedVectors<T>, kN = kSize<T>, kParts = sizeof(W) / sizeof(T);
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const int threads = kRowThreads > 0 ? kRowThreads : blockDim.x;
  const Place place{blockIdx.y, row};
  const auto* const x = find<const T>(op.x, place);
  const auto* const z = find<const T>(op.z, place);
  const Rows weights{const_cast<void*>(op.weight), op.weight_outer_stride, op.weight_inner_stride};
  const auto* const weight = op.weight == nullptr ? nullptr : find<const W>(weights, place);
  const int hidden = row < op.inner ? op.hidden : 0;
  if (kWhole && blockIdx.x < op.prefetching_blocks && hidden > 0 && threadIdx.x == 0) {
    prefetch(x, hidden * sizeof(T));
    prefetch(z, hidden * sizeof(T));
    if (row == 0 && weight != nullptr) prefetch(weight, hidden * sizeof(W));
  }
  wait_for_inputs();
  if (kWhole && kRowThreads == 0 && threadIdx.x == 0) {
    const auto prefetch_from = [&](const T* of_row, std::int64_t stride) {
      prefetch_ahead(of_row, stride, op.prefetch_distance, op.inner - row, hidden * sizeof(T));
    };
    prefetch_from(x, op.x.inner_stride);
    prefetch_from(z, op.z.inner_stride);
  }

  constexpr bool kEarly = sizeof(T) == 2 && kParts == 1;  // else registers run short
  uint4 of_x[kVectors], of_z[kVectors], of_weight[kEarly ? kVectors : kParts];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    of_x[k] = load_vector<T, kWhole>(x, i, hidden);
    of_z[k] = load_vector<T, kWhole>(z, i, hidden);
    if (kEarly) load_weight<T, W, kWhole>(weight, i, hidden, &of_weight[k]);
  }
  let_next_begin();
  float sum = 0;
  // Adds the squares of what is normed. kFirst: `gated` is that; else it is the gate.
  const auto gate = [&](const uint4& of_x, const uint4& of_z, float* gated) {
    float value[kN];
    widen_all<T>(of_x, value);
    widen_all<T>(of_z, gated);
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      gated[e] *= sigmoid<T>(gated[e]);
      if (kFirst) gated[e] *= value[e];
      const float normed = kFirst ? gated[e] : value[e];
      sum += normed * normed;
    }
  };
  float gated[kVectors][kN];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) gate(of_x[k], of_z[k], gated[k]);
  const int vectors = (hidden + kN - 1) / kN;
  const auto each_other = [&](auto function) {  // vector, which the thread reads twice
    if constexpr (kRowThreads == 0) {
      for (int i = threadIdx.x + kVectors * threads; i < vectors; i += threads) {
        const uint4 more = load_vector<T, kWhole>(x, i, hidden);
        float number[kN];
        gate(more, load_vector<T, kWhole>(z, i, hidden), number);
        function(i, more, number);
      }
    }
  };
  each_other([](int, const uint4&, const float*) {});
  __shared__ float partial[32];
  const float rstd = rsqrtf(row_sum<kRowThreads>(sum, partial) * op.inverse + op.eps);

  auto* const y = find<T>(op.y, place);
  const auto store = [&](int i, const uint4& of_x, float* gated, const uint4* of_weight) {
    float factor[kN], value[kN];
    factors_of<T, W>(of_weight, op.weight_bias, factor);
    widen_all<T>(of_x, value);
    if (op.rounds_twice) {
      const auto rounded = [](float v) { return static_cast<float>(static_cast<T>(v)); };
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        float product = rounded((kFirst ? gated[e] : value[e]) * rstd) * factor[e];
        if (kParts == 1) product = rounded(product);
        gated[e] = kFirst ? product : product * gated[e];
      }
    } else {
#pragma unroll
      for (int e = 0; e < kN; ++e) gated[e] *= (kFirst ? rstd : value[e] * rstd) * factor[e];
    }
    store_vector<T, kWhole>(y, i, hidden, gated);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * threads;
    if (!kEarly) load_weight<T, W, kWhole>(weight, i, hidden, of_weight);
    store(i, of_x[k], gated[k], &of_weight[kEarly ? k : 0]);
  }
  each_other([&](int i, const uint4& of_x, float* number) {
    load_weight<T, W, kWhole>(weight, i, hidden, of_weight);
    store(i, of_x, number, of_weight);
  });
}

using GatedKernel = void (*)(Gated);

template <class T, class W, bool kWhole, bool kFirst>
GatedKernel kernel_for(int threads) {
  switch (threads) {
    case 4:
      return rms_norm_gated<T, W, 4, kWhole, kFirst>;
    case 8:
      return rms_norm_gated<T, W, 8, kWhole, kFirst>;
    case 16:
      return rms_norm_gated<T, W, 16, kWhole, kFirst>;
    case 32:
      return rms_norm_gated<T, W, 32, kWhole, kFirst>;
  }
  return rms_norm_gated<T, W, 0, kWhole, kFirst>;
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
  const int threads = gated_threads(op.hidden), rows = threads <= 32 ? kShortRows / threads : 1;
  const std::int64_t blocks = (op.inner + rows - 1) / rows;
  const std::int64_t outer = op.rows == 0 ? 0 : op.rows / op.inner;
  op.prefetching_blocks = prefetching_blocks(rows * row_bytes, blocks * outer);
  if (threads == kMaxGatedThreads)  // an SM has few blocks of so many
    op.prefetch_distance = prefetch_distance(row_bytes / 2, op.inner, 32 << 10);
  const GatedKernel kernel = with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    if (are_whole(op))
      return op.gates_first ? kernel_for<T, W, true, true>(threads)
                            : kernel_for<T, W, true, false>(threads);
    return op.gates_first ? kernel_for<T, W, false, true>(threads)
                          : kernel_for<T, W, false, false>(threads);
  });
  return launch_overlapping(kernel, {.x = blocks, .y = outer}, dim3(threads, rows), 0, stream, op);
}

}  // namespace rmsnorm::kernels
