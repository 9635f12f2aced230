// Exercise 13 - Backward
// Given      two passes over a block's rows: one for dx, and one for its share of dweight.
// Goal       x crosses global memory once, and so does dy.
// Within     at most 3 barriers a row, the same bits in every run, the traffic that this file
//            predicts.
// Check it   ./rmsnorm exercise 13
#include <cuda/annotated_ptr>

#include "lessons/13_backward/backward.hpp"
#include "lessons/13_backward/dispatch.hpp"
#include "lessons/13_backward/other_kernels.hpp"
#include "lessons/13_backward/row.cuh"

namespace {

using namespace rmsnorm::backward;
using rmsnorm::BackwardProblem;
using rmsnorm::Dtype;

/// Sum over the blockDim.x threads of a row: lanes of a warp, or a block. Every thread gets it.
/// Two calls in a row have different turns, 0 and 1.
__device__ float row_sum(float value, int turn) {
  if (blockDim.x <= 32) return group_sum(value, blockDim.x);  // no barrier
  __shared__ float partial[2][32];
  const int lane = threadIdx.x % 32;
  value = group_sum(value, 32);
  if (lane == 0) partial[turn][threadIdx.x / 32] = value;
  __syncthreads();  // every warp's sum is in partial[turn]
  return group_sum(lane < blockDim.x / 32 ? partial[turn][lane] : 0, 32);
}

/// n = x * rstd, g = dy * weight. A block has `block_rows` neighbouring rows,
/// blockDim.y at a time. If kWhole, its threads hold a row; otherwise only
/// part blockIdx.x of one, and the means of g * n are known.
template <class T, int kSize, int kVectors, bool kWhole>
__global__ void __launch_bounds__(kMostThreads, kVectors == 1 ? 2 : 1)  //
    rms_norm_backward(
        const Vector<T, kSize>* x,          // (rows, hidden)    read once
        const Vector<T, kSize>* dy,         // (rows, hidden)    read once
        const float* __restrict__ rstd,     // (rows)            once a warp
        const void* __restrict__ weight,    // (hidden)          once a block
        const float* __restrict__ means,    // (rows)            once a warp
        Vector<T, kSize>* __restrict__ dx,  // (rows, hidden)    written once
        float* __restrict__ shares,         // (blocks, hidden)  written once
        int rows, int hidden, int block_rows, Dtype type, float bias) {
  const int vectors = hidden / kSize;
  const int thread = threadIdx.x + blockIdx.x * kVectors * blockDim.x;
  const auto vector = [=](int k) { return thread + k * int(blockDim.x); };
  const std::int64_t first = blockIdx.y * std::int64_t{block_rows};
  const int end = min(rows - first, std::int64_t{block_rows});
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + first * vectors, keep);
  dy = cuda::associate_access_property(dy + first * vectors, keep);
  dx += first * vectors;

  float factor[kVectors][kSize] = {};
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (vector(k) >= vectors) continue;
    load_factors<T>(factor[k], weight, type, vector(k), bias);
  }
  constexpr bool kAhead = kVectors * kSize <= 16;  // else registers are short
  Vector<T, kSize> next_x[kVectors], next_dy[kVectors];
  float next_rstd;
  const auto load = [&](int row) {  // zeros where nothing is
    next_rstd = row < end ? rstd[first + row] : 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      next_x[k] = next_dy[k] = Vector<T, kSize>{};
      if (row >= end || vector(k) >= vectors) continue;
      next_x[k] = x[row * std::int64_t{vectors} + vector(k)];
      next_dy[k] = dy[row * std::int64_t{vectors} + vector(k)];
    }
  };
  if (kAhead) load(threadIdx.y);

  // >>> your turn
  int turn = 0;
  for (int row = threadIdx.y; row < end + threadIdx.y; row += blockDim.y) {
    if (!kAhead) load(row);
    float sum = 0, n[kVectors][kSize], g[kVectors][kSize];
    const float r = next_rstd;
#pragma unroll
    for (int i = 0; i < kVectors * kSize; ++i) {
      const int k = i / kSize, e = i % kSize;
      n[k][e] = float(element<T>(next_x[k], e)) * r;
      g[k][e] = float(element<T>(next_dy[k], e)) * factor[k][e];
      sum += g[k][e] * n[k][e];
    }
    if (kAhead) load(row + blockDim.y);  // while this row is added up

    const float known = kWhole || row >= end ? 0 : means[first + row];
    const float mean = kWhole ? row_sum(sum, turn) / hidden : known;
    turn = 1 - turn;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      Vector<T, kSize> out;
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        element<T>(out, e) = T(r * (g[k][e] - n[k][e] * mean));
      }
      if (row >= end || vector(k) >= vectors) continue;
      dx[row * std::int64_t{vectors} + vector(k)] = out;
    }
  }

  // Over the block's rows once more, for dweight.
  float share[kVectors][kSize] = {};
  for (int row = threadIdx.y; row < end; row += blockDim.y) {
    load(row);
    const float r = next_rstd;
#pragma unroll
    for (int i = 0; i < kVectors * kSize; ++i) {
      const int k = i / kSize, e = i % kSize;
      const float n = float(element<T>(next_x[k], e)) * r;
      share[k][e] += float(element<T>(next_dy[k], e)) * n;
    }
  }
  // <<<
  if (shares == nullptr) return;  // nobody wants dweight

  extern __shared__ float of_place[];  // (blockDim.y, hidden)
  shares += blockIdx.y * std::int64_t{hidden};
  auto* const to = blockDim.y == 1 ? shares : of_place + threadIdx.y * hidden;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (vector(k) < vectors) store_sums(to, vector(k), share[k]);
  }
  if (blockDim.y > 1) add_places(of_place, shares, hidden);
}

template <class T, int kSize, int kVectors, bool kWhole>
cudaError_t launch_for(const BackwardProblem& p, const Shape& shape, cudaStream_t stream) {
  const dim3 grid(shape.parts, shape.blocks), block(shape.threads, shape.places);
  const int bytes = shape.places > 1 ? shape.places * p.hidden * int(sizeof(float)) : 0;
  rms_norm_backward<T, kSize, kVectors, kWhole><<<grid, block, bytes, stream>>>(
      static_cast<const Vector<T, kSize>*>(p.x), static_cast<const Vector<T, kSize>*>(p.dy), p.rstd,
      p.weight, means_of(p, shape), static_cast<Vector<T, kSize>*>(p.dx),
      p.dweight == nullptr ? nullptr : shares_of(p), p.rows, p.hidden, shape.block_rows,
      p.weight_dtype, p.weight_bias);
  return cudaGetLastError();
}

}  // namespace

cudaError_t rmsnorm::backward::backward(const BackwardProblem& p, cudaStream_t stream) {
  const Shape shape = shape_for(p);
  const auto launch = [&]<class T, int kSize, int kVectors, bool kWhole>() {
    return launch_for<T, kSize, kVectors, kWhole>(p, shape, stream);
  };
  cudaError_t error = launch_row_means(p, shape, stream);
  if (error == cudaSuccess) error = dispatch(p.dtype, shape, launch);
  return error == cudaSuccess ? launch_add_shares(p, shape, stream) : error;
}

static const rmsnorm::Registration lesson{{
    .slug = "13_backward",
    .title = "Backward",
    .idea = "Both gradients in one pass over x and dy, and the same bits in every run",
    .regime = "backward",
    .backward = {backward, workspace_bytes, nullptr, traffic, row_depth, column_depth},
}};
