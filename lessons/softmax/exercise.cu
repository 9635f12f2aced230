// Your turn - Softmax
// Given      one block a row and two trees, one for the largest x and one for the sum.
// Goal       x is read from global memory once, at most 1024 sectors per row,
//            every request to global memory touches 16 sectors, at most 1 barrier per row,
//            at most 64 wavefronts of shared memory per row, no barrier in rows of 128 columns.
// Within     every request to global memory has 32 lanes in rows of 128 columns, the traffic that
//            this file predicts.
// Check it   ./rmsnorm exercise softmax
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "common/operations/softmax.hpp"

namespace {

// >>> your turn
constexpr int kLevels = 8;              // of the tree, which halves the threads down to 1
constexpr int kThreads = 1 << kLevels;  // so it is a power of two: 256

__global__ void softmax(
    const float* __restrict__ x,  // (rows, hidden)  read three times
    float* __restrict__ y,        // (rows, hidden)  written once
    int hidden) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * hidden;
  x += offset;  // in 64 bits: rows * hidden can exceed 2^31
  y += offset;

  __shared__ float partial[kThreads];
  float max = -INFINITY;
  for (int col = threadIdx.x; col < hidden; col += kThreads) max = fmaxf(max, x[col]);
  partial[threadIdx.x] = max;
  __syncthreads();  // every thread's largest is in partial[]
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + stride]);
    }
    __syncthreads();  // this level is done
  }
  max = partial[0];
  __syncthreads();  // every thread has read it: partial[] may be used again

  float sum = 0;
  for (int col = threadIdx.x; col < hidden; col += kThreads) sum += expf(x[col] - max);
  partial[threadIdx.x] = sum;
  __syncthreads();  // every thread's sum is in partial[]
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
    __syncthreads();  // this level is done
  }
  const float scale = 1 / partial[0];

  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    y[col] = expf(x[col] - max) * scale;
  }
}

/// Why a problem is not supported, in a sentence. This kernel supports them all.
std::string unsupported(const rmsnorm::Softmax&) {
  return "";
}

cudaError_t launch(const rmsnorm::Softmax& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  softmax<<<p.rows, kThreads, 0, stream>>>(p.x, p.y, p.hidden);
  return cudaGetLastError();
}

/// What a row asks of global memory, in bytes: x three times, y once.
rmsnorm::Traffic traffic(const rmsnorm::Softmax& p) {
  return {.read = 12.0 * p.hidden, .written = 4.0 * p.hidden};
}

/// The most additions that a term goes through: a thread's own, then the tree's.
int sum_depth(const rmsnorm::Softmax& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}
// <<<

const rmsnorm::Registration<rmsnorm::Softmax> kernel{{
    .slug = "softmax",
    .title = "Softmax",
    .idea = "The largest x, the sum and the quotients of each row",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
