// Rows of any length at any address, beside a weight of any type. Groups of columns begin where the
// row does: a row's result does not depend on its address. x is read anew whenever it is needed.
#include "library/kernels/fp8_kernels.hpp"
#include "library/kernels/fp8_row.cuh"
#include "library/kernels/mixed_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// Threads that an SM is to hold: 1536 have 40 registers each. Turing has room for 1024 alone.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kThreadsOnSm = 1024;
#else
constexpr int kThreadsOnSm = 1536;
#endif

/// A warp has a row, or a block has one.
template <class T, bool kWhole>
__global__ void __launch_bounds__(kMaxMixedThreads, kThreadsOnSm / kMaxMixedThreads)
    rms_norm_fp8_any(
        const __grid_constant__ Fp8Norm op,          // the tensors
        const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  const auto number = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const Place place{blockIdx.y, number};
  const T* const x = find<const T>(op.x, place);
  T* const residual = find<T>(op.residual, place);
  T* const stored = find<T>(op.norm, place);
  auto* const y = find<std::uint8_t>(op.y, place);
  auto* const scales = find<char>(op.scale, place);
  const void* const weight = op.weight == nullptr ? nullptr
                                                  : static_cast<const char*>(op.weight) +
                                                        place.outer * op.weight_outer_stride +
                                                        place.inner * op.weight_inner_stride;
  const int hidden = number < op.inner ? op.hidden : 0;
  const int groups = (hidden + kGroup - 1) / kGroup;
  wait_for_inputs();
  const float limit = limit_or_scale(op);
  const auto load = [&](int i) {
    Group sum = load_group<kWhole>(x, i, hidden);
    if (op.residual.data == nullptr) return sum;
    const Group other = load_group<kWhole>(residual, i, hidden);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) sum.number[j] += other.number[j];
    return sum;
  };
  float sum = 0;
  for (int i = threadIdx.x; i < groups; i += blockDim.x) sum += squares(load(i));
  let_next_begin();
  __shared__ float partial[32];
  const float rstd = rsqrtf(warp_or_block_sum(sum, partial) * plan.inverse + op.eps);
  const auto norm_of = [&](int i, const Group& group) {
    const Group factors = load_factors<kWhole>(weight, op.weight_dtype, i, hidden, op.weight_bias);
    Group norm = scaled(group, rstd, factors);
#pragma unroll
    for (float& element : norm.number) {
      if (op.rounds_twice) element = static_cast<float>(static_cast<T>(element));
    }
    return norm;
  };

  float scale = limit;
  if (op.scales == Scales::row) {
    float largest = 0;
    for (int i = threadIdx.x; i < groups; i += blockDim.x) {
      largest = fmaxf(largest, largest_of<kGroup>(norm_of(i, load(i)).number));
    }
    __shared__ float partial_largest[32];  // partial[] may still be read
    largest = blockDim.x == 32 ? warp_reduce(largest, 32, Larger())
                               : block_reduce<0>(largest, partial_largest, blockDim.x, Larger());
    scale = scale_for(largest, limit, op.y_dtype);
    if (threadIdx.x == 0 && groups > 0) store_scale(op, scales, 0, scale);
  }
  const bool has_powers = op.scales == Scales::powers;
  const PowersOfRow powers(op, scales);
  if (has_powers && groups > 0) fill_tiles(op, scales, threadIdx.x, blockDim.x);
  for (int first = 0; first < groups; first += blockDim.x) {  // whole warps
    const int i = first + threadIdx.x;
    Group norm = {};
    if (i < groups) {
      const Group group = load(i);
      norm = norm_of(i, group);
      if (op.residual.data != nullptr) store_group<kWhole>(residual, i, hidden, group);
      if (op.norm.data != nullptr) store_group<kWhole>(stored, i, hidden, norm);
    }
    if (has_powers || op.scales == Scales::groups) {
      const float largest[] = {largest_of<kGroup>(norm.number)};
      if (has_powers) {
        scale = choose_powers<kGroup>(op, powers, largest, limit, op.y_dtype, i, 0, groups);
      } else {
        constexpr int kLanes = kScaleGroup / kGroup;
        scale = scale_for(warp_reduce(largest[0], kLanes, Larger()), limit, op.y_dtype);
        if (i % kLanes == 0 && i < groups) store_scale(op, scales, i / kLanes, scale);
      }
    }
    const float inverse = has_powers ? reciprocal_of_power(scale) : 1 / scale;
    const Quantized<kGroup> quantized = quantize<kGroup>(norm.number, inverse, op.y_dtype);
    if (kWhole && i < groups) reinterpret_cast<Quantized<kGroup>*>(y)[i] = quantized;
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      const int col = i * kGroup + j;
      if (!kWhole && col < hidden) {
        y[col] = static_cast<std::uint8_t>(quantized.words[j / 4] >> 8 * (j % 4));
      }
    }
  }
}

/// Are all groups of columns vectors?
bool has_whole_groups(const Fp8Norm& op) {
  const std::uintptr_t of_weight =
      reinterpret_cast<std::uintptr_t>(op.weight) | op.weight_outer_stride | op.weight_inner_stride;
  return (columns_bits(op) | of_weight / bytes_of(op.weight_dtype)) % kGroup == 0;
}

}  // namespace

Fp8Kernel fp8_any_kernel(const Fp8Norm& op) {
  return with_type(op.dtype, [&](auto x) -> Fp8Kernel {
    using T = decltype(x);
    return has_whole_groups(op) ? rms_norm_fp8_any<T, true> : rms_norm_fp8_any<T, false>;
  });
}

}  // namespace rmsnorm::kernels
