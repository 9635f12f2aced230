// A residual of another type than x, and weights of any type. Groups of columns begin where the row
// does, at whatever address: a row's result does not depend on it.
#include "library/kernels/mixed_row.cuh"
#include "library/kernels/residual_add_kernels.hpp"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// A warp has a row, or a block has one. Each thread reads again, and then overwrites, what it has
/// read before and could not keep.
template <class T, class R, bool kWhole>
__global__ void __launch_bounds__(kMaxMixedThreads)
    rms_norm_residual_add_mixed(const __grid_constant__ ResidualAdd op) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const Place place{blockIdx.y, row};
  T* const y = find<T>(op.y, place);
  R* const residual = find<R>(op.residual, place);
  const T* const x = find<const T>(op.x, place);
  const char* const weight = static_cast<const char*>(op.weight) +
                             place.outer * op.weight_outer_stride +
                             place.inner * op.weight_inner_stride;
  const int hidden = row < op.inner ? op.hidden : 0;
  const int groups = (hidden + kGroup - 1) / kGroup;
  const int rest = threadIdx.x + kKeptGroups * blockDim.x;  // from here on, twice
  wait_for_inputs();
  const auto load_sum = [&](int i) {
    Group sum = load_group<kWhole>(x, i, hidden);
    const Group other = load_group<kWhole>(residual, i, hidden);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) sum.number[j] += other.number[j];
    return sum;
  };
  Group kept[kKeptGroups] = {};
#pragma unroll
  for (int k = 0; k < kKeptGroups; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i < groups) kept[k] = load_sum(i);
  }
  let_next_begin();
  float sum = 0;
#pragma unroll
  for (const Group& group : kept) sum += squares(group);
#pragma unroll 4
  for (int i = rest; i < groups; i += blockDim.x) sum += squares(load_sum(i));
  __shared__ float partial[32];
  const float rstd = rsqrtf(warp_or_block_sum(sum, partial) / op.hidden + op.eps);

  const auto put = [&](int i, const Group& group) {  // not rounded, in the norm
    store_group<kWhole>(residual, i, hidden, group);
    const Group factors = load_factors<kWhole>(
        op.weight == nullptr ? nullptr : weight, op.weight_dtype, i, hidden, op.weight_bias);
    store_group<kWhole>(y, i, hidden, scaled(group, rstd, factors));
  };
#pragma unroll
  for (int k = 0; k < kKeptGroups; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i < groups) put(i, kept[k]);
  }
  for (int i = rest; i < groups; i += blockDim.x) put(i, load_sum(i));
}

}  // namespace

ResidualAddKernel residual_add_mixed_kernel(const ResidualAdd& op, const ResidualAddPlan& plan) {
  return with_type(op.dtype, [&](auto x) {
    return with_type(op.residual_dtype, [&](auto residual) -> ResidualAddKernel {
      using T = decltype(x);
      using R = decltype(residual);
      return plan.step == kGroup ? rms_norm_residual_add_mixed<T, R, true>
                                 : rms_norm_residual_add_mixed<T, R, false>;
    });
  });
}

}  // namespace rmsnorm::kernels
