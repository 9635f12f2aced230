// A kernel that never ends: half of 0 is 0.
#include "common/contract/lesson.hpp"

namespace {

constexpr int kThreads = 64;

__global__ void never_ends(const float* x, float* y, int hidden) {
  __shared__ float partial[kThreads];
  partial[threadIdx.x] = x[threadIdx.x % hidden];
  for (int half = kThreads / 2; half >= 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) {
      partial[threadIdx.x] += partial[threadIdx.x + half];
    }
  }
  y[0] = partial[0];
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  never_ends<<<p.rows, kThreads, 0, stream>>>(p.x, p.y, p.hidden);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 8.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return hidden;
}

const rmsnorm::Registration lesson{{
    .slug = "97_never_ends",
    .title = "Never ends",
    .idea = "A loop whose bound is off by one",
    .regime = "",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
