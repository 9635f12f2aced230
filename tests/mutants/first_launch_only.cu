// Mutant: is right only at the first launch: nobody resets the counter of rows
// Lesson 02; the mistake is marked.
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

constexpr int kLevels = 8;
constexpr int kThreads = 1 << kLevels;

__device__ unsigned next_row;

__global__ void rms_norm_naive(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int rows,
    int hidden, float eps) {
  __shared__ unsigned row;
  if (threadIdx.x == 0) row = atomicAdd(&next_row, 1);  // <-- mistake
  __syncthreads();
  if (row >= rows) return;
  const auto offset = static_cast<std::int64_t>(row) * hidden;
  x += offset;
  y += offset;

  float sum = 0;
  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    sum += x[col] * x[col];
  }

  __shared__ float partial[kThreads];
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
    y[col] = x[col] * rstd * weight[col];
  }
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  rms_norm_naive<<<p.rows, kThreads, 0, stream>>>(p.x, p.weight, p.y, p.rows, p.hidden, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 12.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return (hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/first_launch_only",
    .title = "Mutant",
    .idea = "Is right only at the first launch: nobody resets the counter of rows",
    .regime = "",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
