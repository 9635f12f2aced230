// Aligned rows that are longer than a block's registers: what these do not hold waits in shared
// memory; what that does not hold, in the L2.
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

constexpr int kVectors = 4;  // of a thread, in registers

/// A block has one row. Each thread reads from shared memory what it put
/// there itself: no barrier.
template <class T, class W, bool kHasWeight>
__global__ void __launch_bounds__(1024) rms_norm_long(
    const __grid_constant__ Forward op,          // the tensors
    const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  const Task task = task_of<false, false>(op, plan, blockIdx.x);
  wait_for_inputs();
  const auto* from = find<const uint4>(task.x, task.place);
  const auto* x = cuda::associate_access_property(from, plan.policy);
  const auto once = cuda::access_property::streaming();
  const auto* again = cuda::associate_access_property(from, once);
  const int end = op.hidden / kSize<T>;
  const int threads = blockDim.x;
  const int begin = kVectors * threads;  // of what is not in registers
  const int end_of_staged = min(end, begin + plan.staged * threads);
  const int rest = end_of_staged + threadIdx.x;  // from here on, twice
  extern __shared__ uint4 staged[];
  uint4 v[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) v[k] = x[threadIdx.x + k * threads];
  let_next_begin();
  float sum = 0;
#pragma unroll 4
  for (int i = begin + threadIdx.x; i < end_of_staged; i += threads) {
    const uint4 u = x[i];
    staged[i - begin] = u;
    sum += squares<T>(u);
  }
#pragma unroll 4
  for (int i = rest; i < end; i += threads) sum += squares<T>(x[i]);
#pragma unroll
  for (const uint4& u : v) sum += squares<T>(u);
  __shared__ float partial[32];
  const float rstd = rsqrtf(row_sum<0>(sum, partial) * plan.inverse + op.eps);
  store_rstd(task, rstd);

  // kHasWeight costs no test, which would keep the loads of vectors apart.
  constexpr int kParts = sizeof(W) / sizeof(T);
  const uint4* __restrict__ weight = static_cast<const uint4*>(task.weight);
  // y may be x: even so, each store depends on the last load of its bytes.
  uint4* __restrict__ y = find<uint4>(task.y, task.place);
  const auto put = [&](int i, const uint4& u) {
    uint4 w[kParts];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      w[part] = kHasWeight ? weight[i * kParts + part] : ones<W>();
    }
    y[i] = scaled<T, W>(u, rstd, w, op.weight_bias);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) put(threadIdx.x + k * threads, v[k]);
#pragma unroll 4
  for (int i = begin + threadIdx.x; i < end_of_staged; i += threads) put(i, staged[i - begin]);
#pragma unroll 4
  for (int i = rest; i < end; i += threads) put(i, again[i]);
}

}  // namespace

ForwardKernel long_rows_kernel(const Forward& op) {
  const bool has_weight = op.tensors[0].weight != nullptr;
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) -> ForwardKernel {
    using T = decltype(x);
    using W = decltype(weight);
    return has_weight ? rms_norm_long<T, W, true> : rms_norm_long<T, T, false>;
  });
}

}  // namespace rmsnorm::kernels
