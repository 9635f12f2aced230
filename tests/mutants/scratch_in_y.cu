// Mutant: keeps the factor of a row in its y[0], where the first column's result comes
// Lesson 02, cut into two kernels; the mistake is marked.
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

constexpr int kLevels = 8;
constexpr int kThreads = 1 << kLevels;

__global__ void rms_norm_naive(
    const float* __restrict__ x, float* __restrict__ y, int hidden, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * hidden;
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
  if (threadIdx.x == 0) y[0] = rsqrtf(partial[0] / hidden + eps);
}

__global__ void scale(
    const float* __restrict__ x, const float* __restrict__ weight, float* y, std::int64_t size,
    int hidden) {
  const auto i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= size) return;
  const float rstd = y[i / hidden * hidden];  // <-- mistake
  y[i] = x[i] * rstd * weight[i % hidden];
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  rms_norm_naive<<<p.rows, kThreads, 0, stream>>>(p.x, p.y, p.hidden, p.eps);
  const std::int64_t size = std::int64_t{p.rows} * p.hidden;
  const auto blocks = static_cast<unsigned>((size - 1) / kThreads + 1);
  scale<<<blocks, kThreads, 0, stream>>>(p.x, p.weight, p.y, size, p.hidden);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 12.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return (hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/scratch_in_y",
    .title = "Mutant",
    .idea = "Keeps the factor of a row in its y[0], where the first column's result comes",
    .regime = "",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
