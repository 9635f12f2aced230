// Your turn - LayerNorm
// Given      one block a row and two trees, one for the mean and one for the variance.
// Goal       x is read from global memory once, at most 2048 sectors per row,
//            every request to global memory touches 16 sectors, at most 2 barriers per row,
//            at most 64 wavefronts of shared memory per row, no barrier in rows of 128 columns.
// Within     every request to global memory has 32 lanes in rows of 128 columns, the traffic that
//            this file predicts.
// Check it   ./rmsnorm exercise layer_norm
#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "common/operations/layer_norm.hpp"

namespace {

// >>> your turn
constexpr int kLevels = 8;              // of the tree, which halves the threads down to 1
constexpr int kThreads = 1 << kLevels;  // so it is a power of two: 256

/// Sum over the threads of a block. Every thread gets it.
__device__ float block_sum(float value, float* partial) {
  partial[threadIdx.x] = value;
  __syncthreads();  // every thread's value is in partial[]
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
    __syncthreads();  // this level is done
  }
  const float sum = partial[0];
  __syncthreads();  // every thread has read it: partial[] may be used again
  return sum;
}

__global__ void layer_norm(
    const float* __restrict__ x,       // (rows, hidden)  read three times
    const float* __restrict__ weight,  // (hidden)        read once a row
    const float* __restrict__ bias,    // (hidden)        read once a row
    float* __restrict__ y,             // (rows, hidden)  written once
    int hidden, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * hidden;
  x += offset;  // in 64 bits: rows * hidden can exceed 2^31
  y += offset;

  __shared__ float partial[kThreads];
  float sum = 0;
  for (int col = threadIdx.x; col < hidden; col += kThreads) sum += x[col];
  const float mean = block_sum(sum, partial) / hidden;

  float squares = 0;
  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    const float distance = x[col] - mean;
    squares += distance * distance;
  }
  const float rstd = rsqrtf(block_sum(squares, partial) / hidden + eps);

  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    y[col] = (x[col] - mean) * rstd * weight[col] + bias[col];
  }
}

/// Why a problem is not supported, in a sentence. This kernel supports them all.
std::string unsupported(const rmsnorm::LayerNorm&) {
  return "";
}

cudaError_t launch(const rmsnorm::LayerNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  layer_norm<<<p.rows, kThreads, 0, stream>>>(p.x, p.weight, p.bias, p.y, p.hidden, p.eps);
  return cudaGetLastError();
}

/// What a row asks of global memory, in bytes: x three times, weight, bias and y once.
rmsnorm::Traffic traffic(const rmsnorm::LayerNorm& p) {
  return {.read = 20.0 * p.hidden, .written = 4.0 * p.hidden};
}

/// The most additions that a term goes through: a thread's own, then the tree's.
int sum_depth(const rmsnorm::LayerNorm& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}
// <<<

const rmsnorm::Registration<rmsnorm::LayerNorm> kernel{{
    .slug = "layer_norm",
    .title = "LayerNorm",
    .idea = "The mean, the variance and the norm of each row",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
