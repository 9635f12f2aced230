// Rows that begin at any address and have any length: vectors in the middle, edges apart.
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// A row is a head, whole vectors, and a tail. y's vectors are at 16-byte
/// addresses; those of x and of the weight are windows into memory.
template <class T, class W, int kVectors, int kRowThreads>
__global__ void __launch_bounds__(kMaxThreads<kRowThreads>) rms_norm_unaligned(
    const __grid_constant__ Forward op,          // the tensors
    const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  const Task task = task_of<(kRowThreads > 0), false>(op, plan);
  wait_for_inputs();
  const T* row = find<const T>(task.x, task.place);
  const auto* x = cuda::associate_access_property(row, plan.policy);
  const auto* weight = static_cast<const W*>(task.weight);
  auto* y = find<T>(task.y, task.place);
  const int hidden = task.exists ? op.hidden : 0;
  constexpr int kParts = sizeof(W) / sizeof(T);

  // A window must not leave the row: it may need `before` elements in front
  // of the first vector, and less than a vector behind the last. Then the
  // edges take them. They are 30 elements at most.
  int head = (kSize<T> - behind_boundary(y)) % kSize<T>;
  const int x_before = behind_boundary(x + head);
  const int w_before = weight == nullptr ? 0 : behind_boundary(weight + head);
  const int before = max(x_before, w_before);
  if (head < before) head += kSize<T>;
  const int behind = before > 0 ? kSize<T> : 0;
  const int vectors = max(0, (hidden - head - behind) / kSize<T>);

  // The rest goes element by element, each to a thread of its own.
  const int edges = hidden - vectors * kSize<T>;
  const auto edge = [&](int e) {
    return e < head ? e : e + vectors * kSize<T>;  // column
  };

  const auto x_of = [&](int i) {  // its vector number i
    return window(x + head + i * kSize<T>, x_before);
  };
  const auto weight_of = [&](int i, uint4* to) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int j = head + i * kSize<T> + part * kSize<W>;
      to[part] = weight == nullptr ? ones<W>() : window(weight + j, w_before);
    }
  };
  constexpr bool kEarly = kVectors * kParts <= 2;  // else registers are short
  uint4 v[kVectors], w[kEarly ? kVectors * kParts : kParts];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    v[k] = i < vectors ? x_of(i) : make_uint4(0, 0, 0, 0);
    if (kEarly && i < vectors) weight_of(i, &w[k * kParts]);
  }
  let_next_begin();
  const int more = threadIdx.x + kVectors * blockDim.x;  // are read twice
  float sum = 0;
  for (int e = threadIdx.x; e < edges; e += blockDim.x) {
    const float value = static_cast<float>(x[edge(e)]);
    sum += value * value;
  }
#pragma unroll 4
  for (int i = more; i < vectors; i += blockDim.x) sum += squares<T>(x_of(i));
#pragma unroll
  for (const uint4& u : v) sum += squares<T>(u);
  __shared__ float partial[32];
  const float mean = row_sum<kRowThreads>(sum, partial) * plan.inverse;
  const float rstd = rsqrtf(mean + op.eps);
  store_rstd(task, rstd);

  const auto put = [&](int i, const uint4& u, const uint4* factors) {
    auto* to = reinterpret_cast<uint4*>(y + head + i * kSize<T>);
    *to = scaled<T, W>(u, rstd, factors, op.weight_bias);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    uint4* const factors = &w[kEarly ? k * kParts : 0];
    if (!kEarly && i < vectors) weight_of(i, factors);
    if (i < vectors) put(i, v[k], factors);
  }
  for (int i = more; i < vectors; i += blockDim.x) {
    uint4 factors[kParts];
    weight_of(i, factors);
    put(i, x_of(i), factors);
  }
  for (int e = threadIdx.x; e < edges; e += blockDim.x) {
    const int col = edge(e);
    float factor = 1;
    if (weight != nullptr) factor = static_cast<float>(weight[col]);
    const float value = static_cast<float>(x[col]) * rstd;
    y[col] = static_cast<T>(value * (factor + op.weight_bias));
  }
}

template <class T, class W>
ForwardKernel kernel_for(const ForwardPlan& plan) {
  switch (plan.threads) {
    case 4:
      return rms_norm_unaligned<T, W, 2, 4>;
    case 8:
      return rms_norm_unaligned<T, W, 2, 8>;
    case 16:
      return rms_norm_unaligned<T, W, 2, 16>;
    case 32:
      return plan.vectors == 2   ? rms_norm_unaligned<T, W, 2, 32>
             : plan.vectors == 3 ? rms_norm_unaligned<T, W, 3, 32>
                                 : rms_norm_unaligned<T, W, 4, 32>;
  }
  return rms_norm_unaligned<T, W, 3, 0>;
}

}  // namespace

ForwardKernel unaligned_kernel(const Forward& op, const ForwardPlan& plan) {
  return with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    return kernel_for<decltype(x), decltype(weight)>(plan);
  });
}

}  // namespace rmsnorm::kernels
