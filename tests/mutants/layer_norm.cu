// Mutant: subtracts the mean, as LayerNorm does
// Lesson 02; the mistake is marked.
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

constexpr int kLevels = 8;
constexpr int kThreads = 1 << kLevels;

__global__ void rms_norm_naive(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y,
    int hidden, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * hidden;
  x += offset;
  y += offset;

  float sum = 0;
  float sum_of_x = 0;
  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    sum += x[col] * x[col];
    sum_of_x += x[col];
  }

  __shared__ float partial[kThreads];
  __shared__ float partial_of_x[kThreads];
  partial[threadIdx.x] = sum;
  partial_of_x[threadIdx.x] = sum_of_x;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      partial[threadIdx.x] += partial[threadIdx.x + half];
      partial_of_x[threadIdx.x] += partial_of_x[threadIdx.x + half];
    }
  }
  __syncthreads();
  const float mean = partial_of_x[0] / hidden;
  const float rstd = rsqrtf(partial[0] / hidden - mean * mean + eps);

  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    y[col] = (x[col] - mean) * rstd * weight[col];  // <-- mistake
  }
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  rms_norm_naive<<<p.rows, kThreads, 0, stream>>>(p.x, p.weight, p.y, p.hidden, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 12.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return (hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/layer_norm",
    .title = "Mutant",
    .idea = "Subtracts the mean, as LayerNorm does",
    .regime = "",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
