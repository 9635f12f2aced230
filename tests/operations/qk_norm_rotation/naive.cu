// The norm of each head of q and k, and their rotation, naive: one block a head, a tree for a
// sum.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>

#include "common/operations/qk_norm_rotation.hpp"

namespace {

using rmsnorm::Dtype;
using rmsnorm::QkNormRotation;

constexpr int kLevels = 6;              // of the tree, which halves the threads down to 1
constexpr int kThreads = 1 << kLevels;  // so it is a power of two: half a head of most models

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

/// An element, times rstd and its weight.
__device__ float norm(
    const QkNormRotation& p, std::int64_t first, int col, float rstd, const void* weight) {
  const float factor = weight == nullptr ? 1 : load(weight, p.weight_dtype, col) + p.weight_bias;
  return load(p.x, p.dtype, first + col) * rstd * factor;
}

/// A block for each head of q and k, those of a row one after the other.
__global__ void qk_norm_rotation_naive(QkNormRotation p) {
  const int heads = p.q_heads + p.k_heads;
  const std::int64_t row = blockIdx.x / heads;
  const int head = static_cast<int>(blockIdx.x % heads);
  const bool is_q = head < p.q_heads;
  const int half = p.hidden / 2;
  const std::int64_t first = (row * (heads + p.k_heads) + head) * p.hidden;  // v is in between
  float squares = 0;
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    const float x = load(p.x, p.dtype, first + col);
    squares += x * x;
  }
  const float rstd = rsqrtf(block_sum(squares) / p.hidden + p.eps);

  const void* const weight = is_q ? p.q_weight : p.k_weight;
  const float scale = is_q ? p.q_scale : 1;
  const std::int64_t in_table = std::int64_t{p.position[row]} * half;
  const std::int64_t in_cache =
      (std::int64_t{p.slot[row]} * p.k_heads + head - p.q_heads) * p.hidden;
  for (int col = threadIdx.x; col < half; col += kThreads) {
    const float a = norm(p, first, col, rstd, weight);
    const float b = norm(p, first, col + half, rstd, weight);
    const float cos = p.cos[in_table + col];
    const float sin = p.sin[in_table + col];
    const float rotated[] = {a * cos - b * sin, b * cos + a * sin};
    for (int i = 0; i < 2; ++i) {  // nobody else needs what was there
      store(p.x, p.dtype, first + col + i * half, scale * rotated[i]);
      if (!is_q) store(p.k_cache, p.dtype, in_cache + col + i * half, rotated[i]);
    }
  }
}

/// Why a problem is not supported, in a sentence.
std::string unsupported(const QkNormRotation& p) {
  const std::int64_t blocks = std::int64_t{p.rows} * (p.q_heads + p.k_heads);
  return blocks <= INT32_MAX
             ? ""
             : "it takes a block for each head, and a grid has no more than 2^31 - 1";
}

cudaError_t launch(const QkNormRotation& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;                  // a grid of no blocks is an error
  const int blocks = p.rows * (p.q_heads + p.k_heads);  // unsupported() refuses more than fit
  qk_norm_rotation_naive<<<blocks, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

/// What a row asks of global memory, in bytes: each head of q and k twice, its weight, a row of
/// both tables; the row's position and slot once a warp of each head, a sector each. The heads are
/// written, and those of k once more.
rmsnorm::Traffic traffic(const QkNormRotation& p) {
  constexpr int kSector = 32;
  const double heads = p.q_heads + p.k_heads;
  const double x = static_cast<double>(bytes_of(p.dtype)) * p.hidden;
  const double weight =
      p.q_weight == nullptr ? 0 : static_cast<double>(bytes_of(p.weight_dtype)) * p.hidden;
  const double tables = 2 * sizeof(float) * (p.hidden / 2.0);
  const double integers = 2.0 * kSector * (kThreads / 32);
  return {.read = heads * (2 * x + weight + tables + integers), .written = (heads + p.k_heads) * x};
}

/// The most additions that a term goes through: a thread's own, then the tree's.
rmsnorm::SumDepth sum_depth(const QkNormRotation& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration<QkNormRotation> lesson{{
    .slug = "qk_norm_rotation",
    .title = "Norm of q and k, and rotation",
    .idea = "A head is normed and rotated where it lies",
    .regime = "heads",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
