// Both gradients in one pass over x and dy: a sum along each row for dx, one down each column for
// dweight.
#include <cuda/annotated_ptr>

#include "library/kernels/backward.hpp"
#include "library/kernels/backward_kernels.hpp"
#include "library/kernels/backward_plan.hpp"
#include "library/kernels/backward_row.cuh"
#include "library/kernels/launch.hpp"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// Stores sums of a vector's columns.
template <int kSize>
__device__ void store_sums(float* to, int vector, const float (&sums)[kSize]) {
  if constexpr (kSize == 1) {
    to[vector] = sums[0];
  } else {
#pragma unroll
    for (int e = 0; e < kSize; e += 4) {
      reinterpret_cast<float4*>(to)[(vector * kSize + e) / 4] =
          make_float4(sums[e], sums[e + 1], sums[e + 2], sums[e + 3]);
    }
  }
}

/// The sum over the threads of a row: some lanes of a warp or, in one of the block's places, whole
/// warps. `partial` are those of every warp.
__device__ inline float place_sum(float value, float* partial) {
  if (blockDim.x <= 32) return group_sum(value, blockDim.x);
  value = group_sum(value, 32);
  const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
  float* const own = partial + threadIdx.y * warps;
  if (lane == 0) own[threadIdx.x / 32] = value;
  __syncthreads();  // every warp's sum is in partial[]
  return group_sum(lane < warps ? own[lane] : 0, 32);
}

/// n = x * rstd, g = dy * weight. A block has blockDim.y rows at a time, and
/// all blocks together have neighbouring ones. If kWhole, its threads hold a
/// row; otherwise only part blockIdx.x of one, and the means of g * n are
/// known. If kVariant is any, all is that of head blockIdx.z, of which op.rows
/// are the rows.
template <class T, int kSize, int kVectors, bool kWhole, Variant kVariant>
__global__ void __launch_bounds__(kVectors == 1 ? kMaxWide : kMaxBlock, 1)  //
    rms_norm_backward(
        const __grid_constant__ Backward op,          // the tensors
        const __grid_constant__ BackwardPlan plan) {  // how blocks share them
  using V = Vector<T, kSize>;
  constexpr bool kPlain = kVariant == Variant::plain;
  constexpr bool kAny = kVariant == Variant::any;
  const int vectors = op.hidden / kSize;
  const int thread = threadIdx.x + blockIdx.x * kVectors * blockDim.x;
  const auto vector = [=](int k) { return thread + k * int(blockDim.x); };
  const int first = blockIdx.y * blockDim.y + threadIdx.y, end = op.rows;
  const int step = gridDim.y * blockDim.y;   // to the thread's next row
  const float* __restrict__ rstd = op.rstd;  // (rows)
  const float* __restrict__ means = plan.means;
  const auto number = [](int row) {  // in rstd and means
    return kAny ? row * std::int64_t{gridDim.z} + blockIdx.z : row;
  };
  // Of kPlain, the first rows; otherwise those that the thread is at.
  const Place place = place_of<false>(kPlain ? 0 : first, op.rows, kPlain ? op.rows : op.inner);
  const char* x = find<const char>(op.x, place);
  const char* dy = find<const char>(op.dy, place);
  char* __restrict__ dx = find<char>(op.dx, place);
  int inner_of_x = place.inner, inner_of_dx = place.inner;  // that of dy is x's
  // On the way to the next row: whether the inner dimension ends before.
  const auto crosses = [&](int& inner) {
    inner += plan.inner_step;
    const bool is_across = inner >= op.inner;
    if (is_across) inner -= op.inner;
    return is_across;
  };

  wait_for_inputs();
  float factor[kVectors][kSize] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (vector(k) >= vectors) continue;
    load_factors<T, kAny>(factor[k], op, blockIdx.z * plan.weight_head, vector(k));
  }
  constexpr bool kPipelined = kVectors * kSize <= 16;  // else registers run short
  V next_x[kVectors], next_dy[kVectors];
  float next_rstd;
  const auto load = [&](int row) {  // zeros where nothing is
    next_rstd = row < end ? rstd[number(row)] : 0;
    if constexpr (kAny) {
      const Place at = place_of<false>(row, op.rows, op.inner);
      x = find_any<const char>(op.x, plan.x_further, at, plan.period, blockIdx.z);
      dy = find_any<const char>(op.dy, plan.dy_further, at, plan.period, blockIdx.z);
    }
    const auto* from_x = reinterpret_cast<const V*>(kPlain ? x + row * op.x.inner_stride : x);
    const auto* from_dy = reinterpret_cast<const V*>(kPlain ? dy + row * op.x.inner_stride : dy);
    if constexpr (kVectors == 2) {                            // elsewhere it is no gain, or a loss
      const auto keep = cuda::access_property::persisting();  // = evict_last
      from_x = cuda::associate_access_property(from_x, keep);
      from_dy = cuda::associate_access_property(from_dy, keep);
    }
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      next_x[k] = next_dy[k] = V{};
      if (row >= end || vector(k) >= vectors) continue;
      next_x[k] = from_x[vector(k)];
      if constexpr (kAny) {
        if (plan.dy_is_expanded) {
          next_dy[k] = repeated<V, T, kSize>(*reinterpret_cast<const T*>(dy));
          continue;
        }
      }
      next_dy[k] = from_dy[vector(k)];
    }
    if constexpr (kPlain && !kPipelined) {  // the next row is on its way to the L2 cache meanwhile
      const int next = row + step;
      if (threadIdx.x == 0 && next < end) {
        prefetch(x + next * op.x.inner_stride, op.hidden * int{sizeof(T)});
        prefetch(dy + next * op.x.inner_stride, op.hidden * int{sizeof(T)});
      }
    }
    if (kPlain || kAny) return;
    const bool is_across = crosses(inner_of_x);
    x += is_across ? plan.x.across : plan.x.within;
    dy += is_across ? plan.dy.across : plan.dy.within;
  };
  if (kPipelined) load(first);

  float column[kVectors][kSize] = {};  // of dweight, from this block's rows
  __shared__ float partial[2][kMaxWide / 32];
  int turn = 0;  // two sums one after the other have different memory
  // While any place of the block has a row: no thread must miss a shuffle or a barrier.
  for (int row = first; row < end + threadIdx.y; row += step) {
    if (!kPipelined) load(row);
    float sum = 0, n[kVectors][kSize], g[kVectors][kSize];
    const float r = next_rstd;
    const auto set = [&](int k, int e) {  // returns dy
      const float d = float(element<T>(next_dy[k], e));
      n[k][e] = float(element<T>(next_x[k], e)) * r;
      g[k][e] = d * factor[k][e];
      return d;
    };
#pragma unroll
    for (int i = 0; i < kVectors * kSize; ++i) {
      const int k = i / kSize, e = i % kSize;
      const float d = set(k, e);
      sum += g[k][e] * n[k][e];
      column[k][e] += d * n[k][e];
    }
    if (kPipelined) load(row + step);  // while this row is added up

    float mean = kWhole || row >= end ? 0 : means[number(row)];
    if (kWhole) mean = place_sum(sum, partial[turn]) * plan.inverse;
    turn = 1 - turn;
    if constexpr (kAny) {
      const Place at = place_of<false>(row, op.rows, op.inner);
      dx = find_any<char>(op.dx, plan.dx_further, at, plan.period, blockIdx.z);
    }
    V* const to_dx = reinterpret_cast<V*>(kPlain ? dx + row * op.x.inner_stride : dx);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      V out;
      if constexpr (!kPipelined) forget(next_x[k]), forget(next_dy[k]);
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        if (!kPipelined) set(k, e);
        element<T>(out, e) = T(r * (g[k][e] - n[k][e] * mean));
      }
      if (row >= end || vector(k) >= vectors) continue;
      to_dx[vector(k)] = out;
    }
    if (!kPlain && !kAny) dx += crosses(inner_of_dx) ? plan.dx.across : plan.dx.within;
  }
  let_next_begin();
  if (plan.sums == nullptr) return;  // nobody wants dweight

  extern __shared__ float of_place[];  // (blockDim.y, hidden)
  const unsigned line = kAny ? blockIdx.y * gridDim.z + blockIdx.z : blockIdx.y;
  float* const sums = plan.sums + line * std::int64_t{op.hidden};
  auto* const to = blockDim.y == 1 ? sums : of_place + threadIdx.y * op.hidden;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (vector(k) < vectors) store_sums(to, vector(k), column[k]);
  }
  if (blockDim.y > 1) add_places(of_place, sums, op.hidden);
}

/// The kernel for aligned rows of which a block has all.
template <class T, Variant kVariant>
BackwardKernel kernel_for_whole_rows(int vectors) {
  constexpr int kSize = 16 / sizeof(T);
  switch (vectors) {
    case 1:
      return rms_norm_backward<T, kSize, 1, true, kVariant>;
    case 2:
      if constexpr (kVariant != Variant::any) return rms_norm_backward<T, kSize, 2, true, kVariant>;
      break;
    case 3:
      if constexpr (kVariant != Variant::any) return rms_norm_backward<T, kSize, 3, true, kVariant>;
      break;
  }
  return rms_norm_backward<T, kSize, kMaxVectors, true, kVariant>;
}

/// The kernel for rows that need not be plain.
template <class T, Variant kVariant>
BackwardKernel kernel_of_variant(const BackwardShape& shape) {
  const bool is_whole = shape.parts == 1;
  if (shape.size == 1) {
    return is_whole ? rms_norm_backward<T, 1, kMaxVectors, true, kVariant>
                    : rms_norm_backward<T, 1, kMaxVectors, false, kVariant>;
  }
  if (!is_whole) return rms_norm_backward<T, 16 / sizeof(T), kPartVectors, false, kVariant>;
  return kernel_for_whole_rows<T, kVariant>(shape.vectors);
}

/// Do the rows of all tensors lie at one distance?
bool are_plain(const NestedBackward& op) {
  const std::int64_t distance = op.x.inner_stride;
  return op.inner >= op.rows && op.dy.inner_stride == distance && op.dx.inner_stride == distance;
}

/// The kernel for an operation: one of sixteen for each type.
template <class T>
BackwardKernel kernel_for(const NestedBackward& op, const BackwardShape& shape) {
  if (variant_of(op) == Variant::any) return kernel_of_variant<T, Variant::any>(shape);
  const bool has_plain_kernel = shape.size > 1 && shape.parts == 1;
  return are_plain(op) && has_plain_kernel ? kernel_for_whole_rows<T, Variant::plain>(shape.vectors)
                                           : kernel_of_variant<T, Variant::rows>(shape);
}

cudaError_t launch_gradients(
    const NestedBackward& op, const BackwardPlan& plan, cudaStream_t stream) {
  const BackwardShape& shape = plan.shape;
  const cudaError_t error = launch_row_means(op, plan, stream);
  if (error != cudaSuccess) return error;
  const BackwardKernel kernel =
      shape.is_cluster
          ? cluster_kernel(op, variant_of(op) != Variant::any && are_plain(op))
          : with_type(op.dtype, [&](auto x) { return kernel_for<decltype(x)>(op, shape); });
  const int bytes = shape.places > 1 ? shape.places * op.hidden * int(sizeof(float)) : 0;
  return launch_overlapping(
      kernel, {shape.parts, shape.blocks, op.heads, shape.is_cluster ? shape.parts : 1},
      dim3(shape.threads, shape.places), bytes, stream, op, plan);
}

}  // namespace

std::size_t workspace_bytes(int rows, int hidden, int heads, Dtype dtype) {
  const int size = 16 / bytes_of(dtype);
  return std::max(
      workspace_bytes_with(rows, hidden, heads, 1),
      hidden % size == 0 ? workspace_bytes_with(rows, hidden, heads, size) : 0);
}

cudaError_t launch(const NestedBackward& op, cudaStream_t stream) {
  BackwardPlan plan = plan_for(op, shape_of(op, has_clusters()));
  cudaError_t error = launch_gradients(op, plan, stream);
  if (plan.shape.is_cluster && is_refused(error)) {
    cudaGetLastError();
    plan = plan_for(op, shape_of(op, false));
    error = launch_gradients(op, plan, stream);
  }
  if (error != cudaSuccess) return error;
  return launch_add_sums(
      plan.sums, plan.shape.blocks, op.heads * op.hidden, op.dweight, op.weight_dtype, stream);
}

}  // namespace rmsnorm::kernels
