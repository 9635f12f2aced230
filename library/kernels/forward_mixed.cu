// Rows beside a weight of 16 bits that are not x's type. Groups of columns begin where the row
// does, at whatever address: a row's result does not depend on it.
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/mixed_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// A warp has a row, or a block has one.
template <class T, bool kWhole>
__global__ void __launch_bounds__(kMaxMixedThreads) rms_norm_mixed(
    const __grid_constant__ Forward op,          // the tensors
    const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  const Task task = task_of<true, false>(op, plan, blockIdx.x);
  wait_for_inputs();
  const T* const x = find<const T>(task.x, task.place);
  T* const y = find<T>(task.y, task.place);
  const int hidden = task.exists ? op.hidden : 0;
  const int groups = (hidden + kGroup - 1) / kGroup;
  const int rest = threadIdx.x + kKeptGroups * blockDim.x;  // from here on, twice
  Group kept[kKeptGroups] = {};
#pragma unroll
  for (int k = 0; k < kKeptGroups; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i < groups) kept[k] = load_group<kWhole>(x, i, hidden);
  }
  let_next_begin();
  float sum = 0;
#pragma unroll
  for (const Group& group : kept) sum += squares(group);
#pragma unroll 4
  for (int i = rest; i < groups; i += blockDim.x) {
    sum += squares(load_group<kWhole>(x, i, hidden));
  }
  __shared__ float partial[32];
  const float rstd = rsqrtf(warp_or_block_sum(sum, partial) * plan.inverse + op.eps);
  store_rstd(task, rstd);

  const auto put = [&](int i, const Group& group) {
    const Group factors =
        load_factors<kWhole>(task.weight, op.weight_dtype, i, hidden, op.weight_bias);
    store_group<kWhole>(y, i, hidden, scaled(group, rstd, factors));
  };
#pragma unroll
  for (int k = 0; k < kKeptGroups; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i < groups) put(i, kept[k]);
  }
  for (int i = rest; i < groups; i += blockDim.x) put(i, load_group<kWhole>(x, i, hidden));
}

/// Are all groups of columns vectors?
bool has_whole_groups(const HeadsForward& op) {
  std::uintptr_t bits = static_cast<std::uintptr_t>(op.hidden) |
                        static_cast<std::uintptr_t>(op.step_bits) / bytes_of(op.dtype);
  for (const Tensor& tensor : op.tensors) {
    bits |= address_bits({tensor.x, tensor.y}) / bytes_of(op.dtype) |
            reinterpret_cast<std::uintptr_t>(tensor.weight) / bytes_of(op.weight_dtype);
  }
  for (const std::int64_t bytes : op.weight_head) {
    bits |= static_cast<std::uintptr_t>(bytes) / bytes_of(op.weight_dtype);
  }
  return bits % kGroup == 0;
}

}  // namespace

ForwardKernel mixed_kernel(const HeadsForward& op) {
  return with_type(op.dtype, [&](auto x) -> ForwardKernel {
    using T = decltype(x);
    return has_whole_groups(op) ? rms_norm_mixed<T, true> : rms_norm_mixed<T, false>;
  });
}

}  // namespace rmsnorm::kernels
