// Lesson 14 - Backward, variants
// Given      a kernel like that of lesson 14, for rows that 512 threads share.
// Changed    two_passes: it is launched twice, for dx, and for dweight, which loads x and dy again;
//            without_turns: a block has rows side by side, not in turn with the other blocks.
// Expect     two_passes: the time of five tensors instead of three;
//            without_turns: the same bytes. Whether the same time, the page has measured.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "common/operations/backward.hpp"

namespace {

using rmsnorm::Backward;
using rmsnorm::Dtype;

constexpr int kThreads = 512;  // of a row
constexpr int kColumns = 8;    // that each of them keeps

/// One of a vector's elements.
template <class T>
__device__ T& element(uint4& vector, int e) {
  return reinterpret_cast<T*>(&vector)[e];
}

/// Sum over the 32 lanes of a warp. Every lane gets it.
__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// Sum over the block. Every thread gets it. Two calls in a row have different turns, 0 and 1.
__device__ float row_sum(float value, int turn) {
  __shared__ float partial[2][kThreads / 32];
  const int lane = threadIdx.x % 32;
  value = warp_sum(value);
  if (lane == 0) partial[turn][threadIdx.x / 32] = value;
  __syncthreads();  // every warp's sum is in partial[turn]
  return warp_sum(lane < kThreads / 32 ? partial[turn][lane] : 0);
}

/// dx of a block's rows, their partial sums of dweight, or both. Here weight is of the type of x.
/// A block has `block_rows` neighbours or, if that is 0, rows in turn with the others.
template <class T, bool kDx, bool kDweight>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 2 ? 2 : 1) rms_norm_gradients(
    const uint4* x,                    // (rows, vectors)   read once
    const uint4* dy,                   // (rows, vectors)   read once
    const float* __restrict__ rstd,    // (rows)            once a warp
    const uint4* __restrict__ weight,  // (vectors)         once a block, for dx
    uint4* __restrict__ dx,            // (rows, vectors)   written once, for dx
    float* __restrict__ partial_sums,  // (blocks, hidden)  written once, for dweight
    int rows, int vectors, int block_rows, float bias) {
  constexpr int kSize = 16 / sizeof(T), kVectors = kColumns / kSize;
  const bool in_turn = block_rows == 0;
  const std::int64_t first = blockIdx.x * std::int64_t{in_turn ? 1 : block_rows};
  const std::int64_t end = in_turn ? rows : min(std::int64_t{rows}, first + block_rows);
  const int step = in_turn ? gridDim.x : 1;
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x, keep);
  dy = cuda::associate_access_property(dy, keep);

  float factor[kVectors][kSize] = {}, dw[kVectors][kSize] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (!kDx || i >= vectors) continue;
    uint4 w = {};
    if (weight != nullptr) w = weight[i];
    for (int e = 0; e < kSize; ++e) {
      factor[k][e] = weight == nullptr ? 1 : static_cast<float>(element<T>(w, e)) + bias;
    }
  }
  uint4 next_x[kVectors], next_dy[kVectors];
  float next_rstd;
  const auto load = [&](std::int64_t row) {  // zeros where nothing is
    next_rstd = row < end ? rstd[row] : 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = threadIdx.x + k * kThreads;
      next_x[k] = next_dy[k] = uint4{};
      if (row >= end || i >= vectors) continue;
      next_x[k] = x[row * vectors + i];
      next_dy[k] = dy[row * vectors + i];
    }
  };
  load(first);
  int turn = 0;
  for (std::int64_t row = first; row < end; row += step) {
    float sum = 0, n[kVectors][kSize], g[kVectors][kSize];
    const float r = next_rstd;
#pragma unroll
    for (int i = 0; i < kVectors * kSize; ++i) {
      const int k = i / kSize, e = i % kSize;
      const float d = static_cast<float>(element<T>(next_dy[k], e));
      n[k][e] = static_cast<float>(element<T>(next_x[k], e)) * r;
      g[k][e] = d * factor[k][e];
      sum += g[k][e] * n[k][e];
      if (kDweight) dw[k][e] += d * n[k][e];
    }
    load(row + step);  // while this row is added up
    if constexpr (!kDx) continue;
    const float mean = row_sum(sum, turn) / (kSize * vectors);
    turn = 1 - turn;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      uint4 out;
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        element<T>(out, e) = static_cast<T>(r * (g[k][e] - n[k][e] * mean));
      }
      const int i = threadIdx.x + k * kThreads;
      if (i < vectors) dx[row * vectors + i] = out;
    }
  }
  if (!kDweight || partial_sums == nullptr) return;
  partial_sums += blockIdx.x * std::int64_t{kSize * vectors};
#pragma unroll
  for (int i = 0; i < kVectors * kSize; i += 4) {
    const int k = i / kSize, e = i % kSize, vector = threadIdx.x + k * kThreads;
    if (vector >= vectors) continue;
    reinterpret_cast<float4*>(partial_sums + vector * kSize)[e / 4] =
        make_float4(dw[k][e], dw[k][e + 1], dw[k][e + 2], dw[k][e + 3]);
  }
}

/// Adds up the blocks' partial sums, as in the lesson.
template <class T>
__global__ void add_partial_sums_of_blocks(
    const float* __restrict__ partial_sums,  // (blocks, hidden)  read once
    T* __restrict__ dweight,                 // (hidden)          written once
    int blocks, int hidden) {
  const int col = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
#pragma unroll 8
  for (int i = threadIdx.y; i < blocks; i += 32) {
    if (col < hidden) sum += partial_sums[i * std::int64_t{hidden} + col];
  }
  __shared__ float of_warp[32][32];
  of_warp[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();  // every warp's sums are in of_warp
  if (threadIdx.y > 0 || col >= hidden) return;
  for (int warp = 1; warp < 32; ++warp) sum += of_warp[warp][threadIdx.x];
  dweight[col] = static_cast<T>(sum);
}

/// Rows of a block, at most: as in the lesson.
int block_rows_of(const Backward& p) {
  return std::max(4, (p.rows + 255) / 256);
}

int blocks_of(const Backward& p) {
  return static_cast<int>((p.rows + std::int64_t{block_rows_of(p)} - 1) / block_rows_of(p));
}

std::string unsupported(const Backward& p) {
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  const auto tensors = address(p.x) | address(p.dy) | address(p.weight) | address(p.dx);
  if (tensors % 16 != 0 || p.hidden * std::int64_t{bytes_of(p.dtype)} % 16 != 0) {
    return "14_backward needs tensors and rows that begin at a multiple of 16 bytes: a 16-byte "
           "load needs a 16-byte address";
  }
  if (p.hidden > kColumns * kThreads) {
    return "14_backward in its variants has room for 4096 columns: 512 threads keep 8 each";
  }
  if (p.rows > 1 << 24) {
    return "14_backward in its variants has 256 blocks: of more than 2^24 rows, each adds up so "
           "many that fp32 loses their digits";
  }
  if (p.dtype == p.weight_dtype) return "";
  return "14_backward in its variants has no kernel for a weight of another type than that of x";
}

template <class T, bool kTwoPasses>
cudaError_t launch_for(const Backward& p, cudaStream_t stream) {
  const int vectors = static_cast<int>(p.hidden * sizeof(T) / 16), blocks = blocks_of(p);
  auto* const partial_sums = static_cast<float*>(p.dweight == nullptr ? nullptr : p.workspace);
  const auto launch_one = [&](auto kernel) {
    if (p.rows == 0) return;  // a grid of no blocks is an error
    kernel<<<blocks, kThreads, 0, stream>>>(
        static_cast<const uint4*>(p.x), static_cast<const uint4*>(p.dy), p.rstd,
        static_cast<const uint4*>(p.weight), static_cast<uint4*>(p.dx), partial_sums, p.rows,
        vectors, kTwoPasses ? 0 : block_rows_of(p), p.weight_bias);
  };
  launch_one(rms_norm_gradients<T, true, !kTwoPasses>);
  if (p.dweight != nullptr) {
    if (kTwoPasses) launch_one(rms_norm_gradients<T, false, true>);
    add_partial_sums_of_blocks<T><<<(p.hidden + 31) / 32, dim3(32, 32), 0, stream>>>(
        partial_sums, static_cast<T*>(p.dweight), blocks, p.hidden);
  }
  return cudaGetLastError();
}

template <bool kTwoPasses>
cudaError_t launch(const Backward& p, cudaStream_t stream) {
  if (p.dtype == Dtype::fp32) return launch_for<float, kTwoPasses>(p, stream);
  if (p.dtype == Dtype::fp16) return launch_for<half, kTwoPasses>(p, stream);
  return launch_for<nv_bfloat16, kTwoPasses>(p, stream);
}

std::size_t workspace_bytes(const Backward& p) {
  return sizeof(float) * blocks_of(p) * p.hidden;
}

/// As the lesson's, and in two passes x, dy and rstd twice.
template <bool kTwoPasses>
rmsnorm::Traffic traffic(const Backward& p) {
  const double row = 1.0 * p.hidden * bytes_of(p.dtype), rows = std::max(1, p.rows);
  const double blocks_of_row = blocks_of(p) / rows;
  const double rstd = kThreads;  // a sector a warp
  const double weight = p.weight == nullptr ? 0 : blocks_of_row * row;
  rmsnorm::Traffic result{.read = 2 * row + rstd + weight, .written = row};
  if (p.dweight != nullptr) {
    const double partial_sums = blocks_of_row * p.hidden * 4;
    result.read += partial_sums + (kTwoPasses ? 2 * row + rstd : 0);
    // Of a vector of 8 columns, two of fp32: either touches the sectors of both.
    result.written += partial_sums * (4 / bytes_of(p.dtype)) + row / rows;
  }
  return result;
}

/// Along a row, a thread's own additions, then those of two warps' shuffles. Down a column, those
/// of a thread, of every 32nd block, and of 32 warps.
rmsnorm::SumDepth sum_depth(const Backward& p) {
  return {kColumns + 5 + 5, block_rows_of(p) + (blocks_of(p) + 31) / 32 + 32};
}

const rmsnorm::Registration<rmsnorm::Backward> two_passes{{
    .slug = "14_backward/two_passes",
    .title = "Backward, two passes",
    .idea = "As 14_backward, but dweight has a launch of its own, which loads x and dy again",
    .regime = "backward",
    .launch = launch<true>,
    .unsupported = unsupported,
    .traffic = traffic<true>,
    .sum_depth = sum_depth,
    .workspace_bytes = workspace_bytes,
}};

const rmsnorm::Registration<rmsnorm::Backward> without_turns{{
    .slug = "14_backward/without_turns",
    .title = "Backward, without turns",
    .idea = "As 14_backward, but a block has rows side by side, not in turn with the other blocks",
    .regime = "backward",
    .launch = launch<false>,
    .unsupported = unsupported,
    .traffic = traffic<false>,
    .sum_depth = sum_depth,
    .workspace_bytes = workspace_bytes,
}};

}  // namespace
