// Rows that begin at any address and have any length: vectors where memory has them, the ends
// apart. The order of additions does not depend on the address, so neither does a row's result.
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// How many elements lie between an address and the 16-byte boundary below it.
template <class T>
__device__ int behind_boundary(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 / sizeof(T);
}

/// The bytes `offset` to `offset` + 15 of two neighbouring vectors, where offset is even and less
/// than 16.
__device__ uint4 shifted(const uint4& low, const uint4& high, unsigned offset) {
  unsigned word[8] = {low.x,  low.y,  low.z,  low.w,  //
                      high.x, high.y, high.z, high.w};
  if (offset & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) word[i] = word[i + 2];
  }
  if (offset & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) word[i] = word[i + 1];
  }
  const unsigned bits = offset % 4 * 8;
  return make_uint4(
      __funnelshift_r(word[0], word[1], bits), __funnelshift_r(word[1], word[2], bits),
      __funnelshift_r(word[2], word[3], bits), __funnelshift_r(word[3], word[4], bits));
}

/// 16 bytes of a row, as they are loaded: two neighbouring vectors of memory.
struct Raw {
  uint4 low, high;
};

/// A row in stretches of 16 bytes, from its column `head` on.
template <class T>
struct Stretches {
  const T* begin;   ///< of stretch 0
  int before;       ///< elements between it and the 16-byte boundary below
  int first, last;  ///< vectors that are all the row's own: first to last - 1

  __device__ Stretches(const T* row, int head, int hidden) {
    begin = row + head;
    before = behind_boundary(begin);
    first = before > head ? 1 : 0;
    last = (hidden - head + before) / kSize<T>;
  }

  /// Loads what the row has of the vectors that stretch i lies in, one or two.
  __device__ Raw load(int i) const {
    const auto* vector = reinterpret_cast<const uint4*>(begin - before) + i;
    Raw raw{};
    if (first <= i && i < last) raw.low = vector[0];
    if (before > 0 && i + 1 < last) raw.high = vector[1];
    return raw;
  }

  /// Stretch i of them; element by element, where a vector is not all the row's own.
  __device__ uint4 finish(int i, const Raw& raw) const {
    if (before > 0 && (i < first || i + 1 >= last)) {
      uint4 result;
#pragma unroll
      for (int e = 0; e < kSize<T>; ++e) {
        reinterpret_cast<T*>(&result)[e] = begin[i * kSize<T> + e];
      }
      return result;
    }
    return shifted(raw.low, raw.high, before * sizeof(T));
  }

  __device__ uint4 operator[](int i) const {
    return finish(i, load(i));
  }
};

/// Adds the squares of elements `first` to `last` - 1 of a vector to a sum, one after the other.
template <class T>
__device__ float add_squares(float sum, const uint4& v, int first, int last) {
#pragma unroll
  for (int e = 0; e < kSize<T>; ++e) {
    const float2 pair = widen(reinterpret_cast<const Pair<T>*>(&v)[e / 2]);
    const float value = e % 2 == 0 ? pair.x : pair.y;
    if (first <= e && e < last) sum += value * value;
  }
  return sum;
}

/// Column 0 begins window 0 of kN columns. All windows but the last two get
/// a vector of y's memory, which begins `head` columns behind the window.
template <class T, class W, int kVectors, int kRowThreads>
__global__ void __launch_bounds__(kMaxThreads<kRowThreads>) rms_norm_unaligned(
    const __grid_constant__ Forward op,          // the tensors
    const __grid_constant__ ForwardPlan plan) {  // how blocks share them
  const Task task = task_of<(kRowThreads > 0), false>(op, plan);
  wait_for_inputs();
  constexpr int kLanes = kRowThreads > 0 ? kRowThreads : 32;  // of a row and warp
  constexpr int kN = kSize<T>, kParts = sizeof(W) / sizeof(T);
  const T* x = find<const T>(task.x, task.place);
  x = cuda::associate_access_property(x, plan.policy);
  const auto* weight = static_cast<const W*>(task.weight);
  auto* y = find<T>(task.y, task.place);
  const int hidden = task.exists ? op.hidden : 0;
  const int windows = (hidden + kN - 1) / kN;
  const int vectors = max(0, windows - 2);
  const int head = (kN - behind_boundary(y)) % kN;

  // A warp has neighbouring vectors, plan.rounds for each lane. Registers
  // keep the first kVectors of a lane; the others are read twice.
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const int base = warp * kLanes * plan.rounds;
  const int end = min(vectors, base + kLanes * plan.rounds);
  const auto index = [&](int k) { return base + lane + k * kLanes; };
  const Stretches<T> of_x(x, head, hidden);
  const Stretches<W> of_weight(weight, weight == nullptr ? 0 : head, hidden);
  const auto load_weight = [&](int i, uint4* to) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      to[part] = weight == nullptr ? ones<W>() : of_weight[i * kParts + part];
    }
  };
  constexpr bool kEarly = kVectors * kParts <= 2;  // else registers are short
  Raw raw[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    raw[k] = index(k) < end ? of_x.load(index(k)) : Raw{};
  }

  // The first window and the last two go to the first warp element by
  // element: for the sum, and for y where they have no vector.
  constexpr int kEnds = (3 * kN - 1) / kLanes + 1;  // of a thread
  T ends[kEnds];
  int columns[kEnds];
#pragma unroll
  for (int n = 0; n < kEnds; ++n) {
    const int e = lane + n * kLanes;
    columns[n] = e < kN ? e : e + max(0, windows - 3) * kN;
    if (warp > 0 || e >= 3 * kN || columns[n] >= hidden) columns[n] = -1;
    ends[n] = columns[n] < 0 ? static_cast<T>(0.0f) : x[columns[n]];
  }

  // A window's squares are added in the order of its columns. They are in
  // two vectors: what the lane before has added of them comes from there.
  // The last lane begins with the vector in front of the warp's.
  float sum = 0, before = 0;
  if (kRowThreads == 0 && lane == kLanes - 1 && 0 < base && base < end) {
    before = add_squares<T>(0, of_x[base - 1], kN - head, kN);
  }
  const auto add = [&](int i, const uint4& u) {
    const float next = add_squares<T>(0, u, kN - head, kN);
    const float sent = lane == kLanes - 1 ? before : next;  // to lane 0
    const int from = (lane + kLanes - 1) % kLanes;
    const float own = __shfl_sync(0xffffffff, sent, from, kLanes);
    const float all = add_squares<T>(own, u, 0, kN - head);
    if (0 < i && i < end) sum += all;
    before = next;
  };
  uint4 v[kVectors], w[kEarly ? kVectors * kParts : kParts];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = index(k);
    v[k] = i < end ? of_x.finish(i, raw[k]) : make_uint4(0, 0, 0, 0);
    if (kEarly && i < end) load_weight(i, &w[k * kParts]);
  }
  let_next_begin();
#pragma unroll
  for (int k = 0; k < kVectors; ++k) add(index(k), v[k]);
  if (kRowThreads == 0) {
#pragma unroll 2
    for (int k = kVectors; k < plan.rounds; ++k) {
      add(index(k), index(k) < end ? of_x[index(k)] : make_uint4(0, 0, 0, 0));
    }
  }
#pragma unroll
  for (const T element : ends) {
    const float value = static_cast<float>(element);
    sum += value * value;
  }
  __shared__ float partial[32];
  const float mean = row_sum<kRowThreads>(sum, partial) * plan.inverse;
  const float rstd = rsqrtf(mean + op.eps);
  store_rstd(task, rstd);

  const auto put = [&](int i, const uint4& u, const uint4* factors) {
    auto* to = reinterpret_cast<uint4*>(y + head) + i;
    *to = scaled<T, W>(u, rstd, factors, op.weight_bias);
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = index(k);
    uint4* const factors = &w[kEarly ? k * kParts : 0];
    if (!kEarly && i < end) load_weight(i, factors);
    if (i < end) put(i, v[k], factors);
  }
  if (kRowThreads == 0) {
    for (int i = index(kVectors); i < end; i += kLanes) {
      uint4 factors[kParts];
      load_weight(i, factors);
      put(i, of_x[i], factors);
    }
  }
#pragma unroll
  for (int n = 0; n < kEnds; ++n) {
    const int col = columns[n];
    const bool has_vector = head <= col && col < head + vectors * kN;
    if (col < 0 || has_vector) continue;
    const float factor = weight == nullptr ? 1 : static_cast<float>(weight[col]);
    y[col] = static_cast<T>(static_cast<float>(ends[n]) * rstd * (factor + op.weight_bias));
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
