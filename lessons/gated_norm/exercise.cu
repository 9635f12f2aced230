// Your turn - Gated norm
// Given      one block a row, a tree for the sum of squares, and a gate for each element.
// Goal       x is read from global memory once, at most 2048 sectors per row,
//            every request to global memory touches 16 sectors, at most 1 barrier per row,
//            at most 32 wavefronts of shared memory per row, no barrier in rows of 128 columns.
// Within     every request to global memory has 32 lanes in rows of 128 columns, the traffic that
//            this file predicts.
// Check it   ./rmsnorm exercise gated_norm
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "common/operations/gated_norm.hpp"

namespace {

// >>> your turn
constexpr int kLevels = 8;              // of the tree, which halves the threads down to 1
constexpr int kThreads = 1 << kLevels;  // so it is a power of two: 256

__global__ void gated_norm(
    const float* __restrict__ x,       // (rows, hidden)  read twice
    const float* __restrict__ z,       // (rows, hidden)  read once
    const float* __restrict__ weight,  // (hidden)        read once a row
    float* __restrict__ y,             // (rows, hidden)  written once
    int hidden, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * hidden;
  x += offset;  // in 64 bits: rows * hidden can exceed 2^31
  z += offset;
  y += offset;

  __shared__ float partial[kThreads];
  float sum = 0;
  for (int col = threadIdx.x; col < hidden; col += kThreads) sum += x[col] * x[col];
  partial[threadIdx.x] = sum;
  __syncthreads();  // every thread's sum is in partial[]
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
    __syncthreads();  // this level is done
  }
  const float rstd = rsqrtf(partial[0] / hidden + eps);

  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    const float gate = z[col] / (1 + expf(-z[col]));
    y[col] = x[col] * rstd * weight[col] * gate;
  }
}

/// Why a problem is not supported, in a sentence. This kernel supports them all.
std::string unsupported(const rmsnorm::GatedNorm&) {
  return "";
}

cudaError_t launch(const rmsnorm::GatedNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  gated_norm<<<p.rows, kThreads, 0, stream>>>(p.x, p.z, p.weight, p.y, p.hidden, p.eps);
  return cudaGetLastError();
}

/// What a row asks of global memory, in bytes: x twice, z, weight and y once.
rmsnorm::Traffic traffic(const rmsnorm::GatedNorm& p) {
  return {.read = 16.0 * p.hidden, .written = 4.0 * p.hidden};
}

/// The most additions that a term goes through: a thread's own, then the tree's.
int sum_depth(const rmsnorm::GatedNorm& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}
// <<<

const rmsnorm::Registration<rmsnorm::GatedNorm> kernel{{
    .slug = "gated_norm",
    .title = "Gated norm",
    .idea = "The norm of each row, times the gate of each element",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
