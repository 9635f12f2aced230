// Exercise 02 - Naive
// Given      a right kernel: 256 threads share a row, each has a piece of it.
// Goal       every request to global memory touches at most 4 sectors.
// Within     every request to global memory has 32 lanes, the traffic that this file predicts.
// Check it   ./rmsnorm exercise 2
#include <cstdint>

#include "common/operations/rms_norm.hpp"

namespace {

constexpr int kLevels = 8;              // of the tree, which halves the threads down to 1
constexpr int kThreads = 1 << kLevels;  // so it is a power of two: 256

__global__ void rms_norm_naive(
    const float* __restrict__ x,       // (rows, hidden)  read twice
    const float* __restrict__ weight,  // (hidden)        read once a row
    float* __restrict__ y,             // (rows, hidden)  written once
    int hidden, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * hidden;
  x += offset;  // in 64 bits: rows * hidden can exceed 2^31
  y += offset;

  // >>> your turn
  // Thread t has a piece of the row: columns t * piece to t * piece + piece - 1.
  const int piece = (hidden - 1) / kThreads + 1;
  const int begin = threadIdx.x * piece;
  const int end = min(begin + piece, hidden);
  float sum = 0;
  for (int col = begin; col < end; ++col) {
    sum += x[col] * x[col];
  }

  // The tree: half of the threads add the other half's sums, then half of
  // those, until partial[0] holds the sum of the row.
  __shared__ float partial[kThreads];
  partial[threadIdx.x] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();  // the sums that are read next have been written
    if (threadIdx.x < half) {
      partial[threadIdx.x] += partial[threadIdx.x + half];
    }
  }
  __syncthreads();  // partial[0] is complete
  const float rstd = rsqrtf(partial[0] / hidden + eps);

  for (int col = begin; col < end; ++col) {
    y[col] = x[col] * rstd * weight[col];
  }
  // <<<
}

cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  rms_norm_naive<<<p.rows, kThreads, 0, stream>>>(p.x, p.weight, p.y, p.hidden, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  return {.read = 12.0 * p.hidden, .written = 4.0 * p.hidden};  // x twice, weight once; y once
}

/// A thread's own additions, then the tree's.
int sum_depth(const rmsnorm::RmsNorm& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> lesson{{
    .slug = "02_naive",
    .title = "Naive",
    .idea = "One block a row: neighbouring threads read neighbouring columns, a tree adds up",
    .regime = "prefill",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
