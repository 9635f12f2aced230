// A kernel that never ends: half of 0 is 0.
#include "common/operations/rms_norm.hpp"

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

cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  never_ends<<<p.rows, kThreads, 0, stream>>>(p.x, p.y, p.hidden);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  return {.read = 8.0 * p.hidden, .written = 4.0 * p.hidden};
}

int sum_depth(const rmsnorm::RmsNorm& p) {
  return p.hidden;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> lesson{{
    .slug = "97_never_ends",
    .title = "Never ends",
    .idea = "A loop whose bound is off by one",
    .regime = "",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
