// Mutant: leaves the last rows unwritten, where they do not fill a block
// Lesson 02, with four rows a block, one after the other; the mistake is marked.
#include <algorithm>
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

constexpr int kLevels = 8;
constexpr int kThreads = 1 << kLevels;
constexpr int kRows = 4;  // of a block, one after the other

__global__ void rms_norm_naive(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int rows,
    int hidden, float eps) {
  const std::int64_t first = blockIdx.x * std::int64_t{kRows};
  __shared__ float partial[kThreads];
  for (std::int64_t row = first; row < rows && row < first + kRows; ++row) {
    float sum = 0;
    for (int col = threadIdx.x; col < hidden; col += kThreads) {
      sum += x[row * hidden + col] * x[row * hidden + col];
    }

    partial[threadIdx.x] = sum;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) {
        partial[threadIdx.x] += partial[threadIdx.x + half];
      }
    }
    __syncthreads();
    const float rstd = rsqrtf(partial[0] / hidden + eps);

    for (int col = threadIdx.x; col < hidden; col += kThreads) {
      y[row * hidden + col] = x[row * hidden + col] * rstd * weight[col];
    }
    __syncthreads();  // partial[] is free for the next row
  }
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  const int blocks = std::max(1, p.rows / kRows);  // <-- mistake
  rms_norm_naive<<<blocks, kThreads, 0, stream>>>(p.x, p.weight, p.y, p.rows, p.hidden, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 12.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return (hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/last_row",
    .title = "Mutant",
    .idea = "Leaves the last rows unwritten, where they do not fill a block",
    .regime = "",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
