// The sum over ranks, a residual and the norm, naive: one block a row, a tree for the squares, and
// all is read anew to be normed.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>

#include "common/operations/sum_of_ranks.hpp"

namespace {

using rmsnorm::Dtype;
using rmsnorm::SumOfRanks;

constexpr int kLevels = 7;              // of the tree, which halves the threads down to 1
constexpr int kThreads = 1 << kLevels;  // so it is a power of two

/// Element i of a tensor.
__device__ float load(const void* from, Dtype dtype, std::int64_t i) {
  if (dtype == Dtype::fp32) return static_cast<const float*>(from)[i];
  if (dtype == Dtype::fp16) return __half2float(static_cast<const __half*>(from)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
}

/// Stores a number in a type's nearest.
__device__ void store(void* to, Dtype dtype, std::int64_t i, float value) {
  if (dtype == Dtype::fp32) static_cast<float*>(to)[i] = value;
  if (dtype == Dtype::fp16) static_cast<__half*>(to)[i] = __float2half_rn(value);
  if (dtype == Dtype::bf16) static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16_rn(value);
}

/// Sum over the threads of a block. Every thread gets it.
__device__ float block_sum(float value) {
  __shared__ float partial[kThreads];
  partial[threadIdx.x] = value;
  __syncthreads();  // every thread's value is in partial[]
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
    __syncthreads();  // this level is done
  }
  return partial[0];
}

/// What all ranks and the residual have together, in the order that all ranks agree on.
__device__ float sum_of(const SumOfRanks& p, std::int64_t i) {
  float sum = load(p.x[0], p.dtype, i);
  for (int rank = 1; rank < p.ranks; ++rank) sum += load(p.x[rank], p.dtype, i);
  return sum + load(p.residual, p.dtype, i);
}

__global__ void sum_of_ranks_naive(SumOfRanks p) {
  const std::int64_t first = std::int64_t{blockIdx.x} * p.hidden;  // rows * hidden can exceed 2^31
  float squares = 0;
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    const float sum = sum_of(p, first + col);
    squares += sum * sum;
  }
  const float rstd = rsqrtf(block_sum(squares) / p.hidden + p.eps);
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    const float sum = sum_of(p, first + col);
    const float factor =
        p.weight == nullptr ? 1 : load(p.weight, p.weight_dtype, col) + p.weight_bias;
    store(p.y, p.dtype, first + col, sum * rstd * factor);
    store(p.residual, p.dtype, first + col, sum);  // nobody needs what was there
  }
}

/// Why a problem is not supported, in a sentence. This kernel supports them all.
std::string unsupported(const SumOfRanks&) {
  return "";
}

cudaError_t launch(const SumOfRanks& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  sum_of_ranks_naive<<<p.rows, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

/// What a row asks of global memory, in bytes: each rank's x and the residual twice, the weight; y
/// and the residual.
rmsnorm::Traffic traffic(const SumOfRanks& p) {
  const double x = static_cast<double>(bytes_of(p.dtype)) * p.hidden;
  const double weight =
      p.weight == nullptr ? 0 : static_cast<double>(bytes_of(p.weight_dtype)) * p.hidden;
  return {.read = 2 * (p.ranks + 1) * x + weight, .written = 2 * x};
}

/// The most additions that a term goes through: a thread's own, then the tree's.
rmsnorm::SumDepth sum_depth(const SumOfRanks& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration<SumOfRanks> lesson{{
    .slug = "sum_of_ranks",
    .title = "Sum over ranks, residual and norm",
    .idea = "The ranks' parts are added up where they are normed",
    .regime = "decode",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
