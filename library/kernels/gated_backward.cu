// The backward pass of a norm with a gate: x, z and dy once, dx and dz once. What the forward pass
// knew is computed again.
#include <cuda_pipeline.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "library/kernels/backward_kernels.hpp"
#include "library/kernels/backward_row.cuh"
#include "library/kernels/gated_row.cuh"
#include "library/kernels/launch.hpp"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

constexpr int kBlock = 512;  // threads, all that an SM has registers for

/// How rows are shared.
struct Shape {
  int threads;  // of a row
  int places;   // rows that a block has at a time
  int blocks;   // of each head
};

/// On an H200, as many as its 132 SMs have at a time; fewer where a block would have less than four
/// rows after each other, as partial sums cost more then.
Shape shape_for(int rows, int hidden, int heads) {
  Shape shape{gated_threads(hidden), 0, 0};
  shape.places = std::max(1, kBlock / shape.threads);
  const int of_all = 132 * std::max(1, kMaxGatedThreads / (shape.threads * shape.places));
  const std::int64_t in_turns = divide_up(rows, std::int64_t{4} * shape.places);
  shape.blocks =
      static_cast<int>(std::min<std::int64_t>(in_turns, std::max(1, of_all / std::max(1, heads))));
  return shape;
}

/// The sums of two numbers over the threads of a row: some lanes of a warp or, in one of the
/// block's places, whole warps. `partial` are those of every warp.
__device__ float2 place_sums(float2 value, float2* partial) {
  const int lanes = min(32, blockDim.x);
  value = {group_sum(value.x, lanes), group_sum(value.y, lanes)};
  if (blockDim.x <= 32) return value;
  const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
  float2* const own = partial + threadIdx.y * warps;
  if (lane == 0) own[threadIdx.x / 32] = value;
  __syncthreads();  // every warp's sums are in partial[]
  value = lane < warps ? own[lane] : float2{0, 0};
  return {group_sum(value.x, 32), group_sum(value.y, 32)};
}

/// A block has blockDim.y rows of head blockIdx.y at a time, and all blocks together have
/// neighbouring ones. If kWhole, all rows are whole vectors at 16-byte addresses. kFirst: as in the
/// operation. If kPlain, all rows of a head are at one distance. If kStaged, rows wait in shared
/// memory: while a thread has its vectors of one, it copies its own of the next row there, and no
/// barrier is needed. fp32 would need more than some GPUs have.
/// \param sums  (gridDim.x, heads, hidden) of dweight; null: they are unwanted
template <class T, class W, bool kWhole, bool kStaged, bool kFirst, bool kPlain>
__global__ void __launch_bounds__(kMaxGatedThreads, 1)
    rms_norm_gated_backward(const __grid_constant__ GatedBackward op, float* sums) {
  constexpr int kVectors = kGatedVectors<T>, kN = kSize<T>;
  using Op = GatedBackward;
  const int head = blockIdx.y;
  const auto* const weights = static_cast<const char*>(op.weight) + head * op.weight_head;
  const auto* const weight = op.weight == nullptr ? nullptr : reinterpret_cast<const W*>(weights);
  const auto vector = [](int k) { return int(threadIdx.x + k * blockDim.x); };
  wait_for_inputs();
  float factor[kVectors][kN], column[kVectors][kN] = {};  // of dweight, from this block's rows
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    uint4 of_weight[sizeof(W) / sizeof(T)];
    load_weight<T, W, kWhole>(weight, vector(k), op.hidden, of_weight);
    factors_of<T, W>(of_weight, op.weight_bias, factor[k]);
  }
  __shared__ float2 partial[2][kMaxGatedThreads / 32];
  int turn = 0;  // two sums one after the other have different memory
  const int step = gridDim.x * blockDim.y;
  const auto find_row = [&](int tensor, int number) {
    const Place at = kPlain ? Place{0, number} : place_of<false>(number, op.rows, op.inner);
    return find_any<T>(op.tensors[tensor], op.further[tensor], at, kPlain ? 0 : op.period, head);
  };
  extern __shared__ uint4 shared[];
  const auto slot = [&](int stage, int tensor, int k) -> uint4& {
    const int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
    return shared[((stage * 3 + tensor) * kVectors + k) * threads + thread];
  };
  const auto begin_copies = [&](int number, int stage) {
    if (number < op.rows) {
      for (const int tensor : {Op::kX, Op::kZ, Op::kDy}) {
        const auto* const from = reinterpret_cast<const uint4*>(find_row(tensor, number));
#pragma unroll
        for (int k = 0; k < kVectors; ++k) {
          if (vector(k) * kN < op.hidden)
            __pipeline_memcpy_async(&slot(stage, tensor, k), from + vector(k), sizeof(uint4));
        }
      }
    }
    __pipeline_commit();
  };
  const int first_row = blockIdx.x * blockDim.y + threadIdx.y;
  if (kStaged) begin_copies(first_row, 0);
  // While any place of the block has a row: no thread must miss a shuffle or a barrier.
  for (int row = first_row; row < op.rows + int(threadIdx.y); row += step, turn = 1 - turn) {
    const int hidden = row < op.rows ? op.hidden : 0;
    uint4 of_x[kVectors], of_z[kVectors], of_dy[kVectors];
    if constexpr (kStaged) {
      begin_copies(row + step, 1 - turn);
      __pipeline_wait_prior(1);  // this row's vectors are in its slots
    }
    const auto take = [&](int tensor, uint4* vectors) {
      const T* const from = kStaged ? nullptr : find_row(tensor, row);
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        if constexpr (kStaged) {
          vectors[k] = vector(k) * kN < hidden ? slot(turn, tensor, k) : make_uint4(0, 0, 0, 0);
        } else {
          vectors[k] = load_vector<T, kWhole>(from, vector(k), hidden);
        }
      }
    };
    take(Op::kX, of_x), take(Op::kZ, of_z), take(Op::kDy, of_dy);
    if (kWhole && !kStaged && threadIdx.x == 0 && row + step < op.rows) {  // the next row's way
      for (const int tensor : {Op::kX, Op::kZ, Op::kDy})                   // is shorter then
        prefetch(find_row(tensor, row + step), op.hidden * sizeof(T));
    }

    float2 both{0, 0};             // the sums of u * u and of g * u
    float sigmoids[kVectors][kN];  // of z
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      float x[kN], z[kN], dy[kN];
      widen_all<T>(of_x[k], x);
      widen_all<T>(of_z[k], z);
      widen_all<T>(of_dy[k], dy);
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        sigmoids[k][e] = sigmoid<T>(z[e]);
        const float silu = z[e] * sigmoids[k][e];
        const float u = kFirst ? x[e] * silu : x[e];
        const float g = dy[e] * factor[k][e] * (kFirst ? 1 : silu);
        both.x += u * u;
        both.y += g * u;
      }
    }
    both = place_sums(both, partial[turn]);
    const float rstd = hidden == 0 ? 0 : rsqrtf(both.x * op.inverse + op.eps);  // else NaN
    const float part = both.y * rstd * rstd * op.inverse;  // rstd * mean of g * n
    T* const to_dx = find_row(Op::kDx, row);
    T* const to_dz = find_row(Op::kDz, row);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      forget(of_x[k]), forget(of_z[k]), forget(of_dy[k]);
      float x[kN], z[kN], dy[kN];  // then dx and dz
      widen_all<T>(of_x[k], x);
      widen_all<T>(of_z[k], z);
      widen_all<T>(of_dy[k], dy);
#pragma unroll
      for (int e = 0; e < kN; ++e) {
        const float s = sigmoids[k][e], silu = z[e] * s, slope = s + silu * (1 - s);
        const float n = (kFirst ? x[e] * silu : x[e]) * rstd, d = dy[e] * factor[k][e];
        const float du = rstd * (kFirst ? d : d * silu) - n * part;
        column[k][e] += dy[e] * n * (kFirst ? 1 : silu);
        z[e] = (kFirst ? du * x[e] : d * n) * slope;
        x[e] = kFirst ? du * silu : du;
      }
      store_vector<T, kWhole>(to_dx, vector(k), hidden, x);
      store_vector<T, kWhole>(to_dz, vector(k), hidden, z);
    }
  }
  let_next_begin();
  if (sums == nullptr) return;

  auto* const of_place = reinterpret_cast<float*>(shared);  // (blockDim.y, hidden)
  if (kStaged && blockDim.y > 1) __syncthreads();           // nobody reads a slot any more
  sums += (blockIdx.x * std::int64_t{gridDim.y} + head) * op.hidden;
  auto* const to = blockDim.y == 1 ? sums : of_place + threadIdx.y * op.hidden;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
#pragma unroll
    for (int e = 0; e < kN; ++e) {
      const int col = vector(k) * kN + e;
      if (col < op.hidden) to[col] = column[k][e];
    }
  }
  if (blockDim.y > 1) add_places(of_place, sums, op.hidden);
}

/// Dynamic shared memory of a block: stages or, after all rows, the sums of its places.
std::int64_t shared_bytes(const Shape& shape, const GatedBackward& op, bool is_staged) {
  const std::int64_t threads = shape.threads * shape.places;
  const std::int64_t staged =
      is_staged ? 2 * 3 * sizeof(uint4) * kGatedColumns / 8 * threads : 0;  // of 16 bits
  const std::int64_t sums = shape.places > 1 ? shape.places * op.hidden * sizeof(float) : 0;
  return std::max(staged, sums);
}

/// Are all rows whole vectors of 16 bytes, at 16-byte addresses?
bool are_whole(const GatedBackward& op) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(op.weight) | op.weight_head;
  bits |= static_cast<std::uintptr_t>(op.hidden) * bytes_of(op.dtype);
  for (const Rows& rows : op.tensors) bits |= address_bits({rows});
  for (const Further& further : op.further) bits |= further.leap | further.head;
  return bits % 16 == 0;
}

}  // namespace

std::size_t gated_workspace_bytes(int rows, int hidden, int heads) {
  const std::size_t blocks = shape_for(rows, hidden, heads).blocks;
  return sizeof(float) * blocks * heads * hidden;
}

cudaError_t launch(const GatedBackward& given, cudaStream_t stream) {
  GatedBackward op = given;
  op.inverse = 1.0f / static_cast<float>(op.hidden);
  const Shape shape = shape_for(op.rows, op.hidden, op.heads);
  float* const sums = op.dweight == nullptr ? nullptr : op.workspace;
  int most = 0;
  if (const cudaError_t found = most_shared_bytes(&most); found != cudaSuccess) return found;
  const bool is_whole = are_whole(op);
  const bool is_staged =
      is_whole && op.dtype != Dtype::fp32 && shared_bytes(shape, op, true) <= most;
  const auto bytes = static_cast<int>(shared_bytes(shape, op, is_staged));
  const cudaError_t error = with_types(op.dtype, op.weight_dtype, [&](auto x, auto weight) {
    using T = decltype(x);
    using W = decltype(weight);
    const auto kernel_for = [&]<bool kFirst>(std::bool_constant<kFirst>) {
      const bool is_plain = op.inner >= op.rows && op.period == 0;
      if (!is_whole) return rms_norm_gated_backward<T, W, false, false, kFirst, false>;
      if constexpr (sizeof(T) == 2) {
        return !is_staged ? rms_norm_gated_backward<T, W, true, false, kFirst, false>
               : is_plain ? rms_norm_gated_backward<T, W, true, true, kFirst, true>
                          : rms_norm_gated_backward<T, W, true, true, kFirst, false>;
      } else {
        return is_plain ? rms_norm_gated_backward<T, W, true, false, kFirst, true>
                        : rms_norm_gated_backward<T, W, true, false, kFirst, false>;
      }
    };
    const auto kernel =
        op.gates_first ? kernel_for(std::true_type()) : kernel_for(std::false_type());
    return launch_staged(
        kernel, {.x = shape.blocks, .y = op.heads}, dim3(shape.threads, shape.places), bytes,
        stream, op, sums);
  });
  if (error != cudaSuccess) return error;
  return launch_add_sums(
      sums, shape.blocks, op.heads * op.hidden, op.dweight, op.weight_dtype, stream);
}

}  // namespace rmsnorm::kernels
