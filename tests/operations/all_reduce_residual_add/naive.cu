// The sum over ranks, a residual and the norm, naive: for each layer, one kernel puts each rank's
// part where all find it, and the next adds them, norms, and reads all anew to do so.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>

#include "common/operations/all_reduce.hpp"

namespace {

using rmsnorm::AllReduce;
using rmsnorm::Dtype;

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

/// The number as it is in the nearest of the type.
__device__ float nearest(Dtype dtype, float value) {
  if (dtype == Dtype::fp16) return __half2float(__float2half_rn(value));
  if (dtype == Dtype::bf16) return __bfloat162float(__float2bfloat16_rn(value));
  return value;
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

/// Column `col` of a block's row, in one layer.
__device__ std::int64_t place(const AllReduce& p, int layer, int col) {
  return (std::int64_t{blockIdx.x} * p.layers + layer) * p.hidden + col;
}
__device__ std::int64_t place(const AllReduce& p, int col) {
  return std::int64_t{blockIdx.x} * p.hidden + col;
}

/// What all ranks and the residual have together, in the order that all ranks agree on.
__device__ float value_of(const AllReduce& p, int col) {
  const std::int64_t i = place(p, col);
  float sum = 0;
  for (int rank = 0; rank < p.ranks; ++rank) sum += load(p.rank[rank].workspace, p.dtype, i);
  return nearest(p.dtype, sum) + load(p.rank[blockIdx.y].residual, p.dtype, i);
}

__global__ void show_parts(AllReduce p, int layer) {
  const AllReduce::Rank& own = p.rank[blockIdx.y];
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    store(own.workspace, p.dtype, place(p, col), load(own.x, p.dtype, place(p, layer, col)));
  }
}

__global__ void sum_and_norm(AllReduce p, int layer) {
  const AllReduce::Rank& own = p.rank[blockIdx.y];
  float squares = 0;
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    const float value = value_of(p, col);
    squares += value * value;
  }
  const float rstd = rsqrtf(block_sum(squares) / p.hidden + p.eps);
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    const float value = value_of(p, col);
    const float factor =
        p.weight == nullptr ? 1 : load(p.weight, p.weight_dtype, col) + p.weight_bias;
    store(own.y, p.dtype, place(p, layer, col), value * rstd * factor);
    store(own.residual, p.dtype, place(p, col), value);  // nobody needs what was there
  }
}

/// Why a problem is not supported, in a sentence. This kernel supports them all.
std::string unsupported(const AllReduce&) {
  return "";
}

/// Of each rank, for its part of one layer.
std::size_t workspace_bytes(const AllReduce& p) {
  return static_cast<std::size_t>(bytes_of(p.dtype)) * static_cast<std::size_t>(p.rows) *
         static_cast<std::size_t>(p.hidden);
}

cudaError_t launch(const AllReduce& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const dim3 grid(p.rows, p.ranks);
  for (int layer = 0; layer < p.layers; ++layer) {
    show_parts<<<grid, kThreads, 0, stream>>>(p, layer);
    sum_and_norm<<<grid, kThreads, 0, stream>>>(p, layer);
  }
  return cudaGetLastError();
}

/// For each layer, a rank reads x once, its own part and the residual twice, and the weight; it
/// writes its part, y and the residual. It reads twice what others have.
rmsnorm::Traffic traffic(const AllReduce& p) {
  const double x = static_cast<double>(bytes_of(p.dtype)) * p.hidden;
  const double weight =
      p.weight == nullptr ? 0 : static_cast<double>(bytes_of(p.weight_dtype)) * p.hidden;
  const double lines = static_cast<double>(p.ranks) * p.layers;
  return {
      .read = lines * (5 * x + weight),
      .written = lines * 3 * x,
      .from_peers = lines * 2 * (p.ranks - 1) * x};
}

/// The most additions that a term goes through: a thread's own, then the tree's.
rmsnorm::SumDepth sum_depth(const AllReduce& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration<AllReduce> lesson{{
    .slug = "all_reduce_residual_add",
    .title = "Sum over ranks, residual and norm",
    .idea = "Each rank's part is where all find it, and all add them up",
    .regime = "decode",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
    .workspace_bytes = workspace_bytes,
}};

}  // namespace
