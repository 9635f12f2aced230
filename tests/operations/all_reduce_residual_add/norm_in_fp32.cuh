/// \file
/// The norm of a layer in fp32, behind a sum over ranks: what the protocols have in common.
#pragma once

#include <cstdint>
#include <string>

#include "common/operations/all_reduce.hpp"

namespace {

using rmsnorm::AllReduce;
using rmsnorm::kMostRanks;

constexpr int kThreads = 128;

/// Sum over the threads of a block. Every thread gets it.
__device__ float block_sum(float value) {
  __shared__ float partial[kThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  __syncthreads();  // everybody has read the sums before
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();  // every warp's sum is in partial[]
  float sum = 0;
  for (const float one : partial) sum += one;
  return sum;
}

/// A rank's part of a layer.
__device__ const float* x_of(const AllReduce& p, int rank, int row, int layer) {
  const auto* x = static_cast<const float*>(p.rank[rank].x);
  return x + (row * std::int64_t{p.layers} + layer) * p.hidden;
}

/// Adds the residual to what `sum` says of a column, and norms that.
template <class Sum>
__device__ void norm(const AllReduce& p, int rank, int row, int layer, const Sum& sum) {
  auto* residual = static_cast<float*>(p.rank[rank].residual) + row * std::int64_t{p.hidden};
  const auto* weight = static_cast<const float*>(p.weight);
  auto* y = static_cast<float*>(p.rank[rank].y) + (row * std::int64_t{p.layers} + layer) * p.hidden;
  float squares = 0;
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    residual[col] += sum(col);
    squares += residual[col] * residual[col];
  }
  const float rstd = rsqrtf(block_sum(squares) / p.hidden + p.eps);
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    y[col] = residual[col] * rstd * (weight == nullptr ? 1 : weight[col] + p.weight_bias);
  }
}

/// Why a problem is not supported, in a sentence.
std::string unsupported(const AllReduce& p) {
  return p.dtype == rmsnorm::Dtype::fp32 ? "" : "this kernel knows fp32 alone";
}

constexpr int kBlocks = 4;  // of a rank: all have to be on the device together

/// A thread's own columns, then the additions of a warp's shuffles and of all warps.
rmsnorm::SumDepth sum_depth(const AllReduce& p) {
  return (p.hidden - 1) / kThreads + 1 + 5 + kThreads / 32;
}

}  // namespace
