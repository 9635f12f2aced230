// Mutant: lets every lane write the total, the same value
// Lesson 04; the mistake is marked.
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

__global__ void rms_norm_warp_reduce(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y,
    int hidden, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * hidden;
  x += offset;
  y += offset;

  extern __shared__ float staged[];
  float sum = 0;
  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    const float value = x[col];
    staged[col] = value;
    sum += value * value;
  }

  __shared__ float partial[kWarps];
  __shared__ float total;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = warp_sum(lane < kWarps ? partial[lane] : 0);
    total = sum;  // <-- mistake
  }
  __syncthreads();
  const float rstd = rsqrtf(total / hidden + eps);

  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    y[col] = staged[col] * rstd * weight[col];
  }
}

std::string refuses(const rmsnorm::Problem& p) {
  return p.hidden <= 10000 ? ""
                           : "mutant/race_that_ends_well stages a row in 48 KiB of shared memory";
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  const int row_bytes = p.hidden * static_cast<int>(sizeof(float));
  rms_norm_warp_reduce<<<p.rows, kThreads, row_bytes, stream>>>(
      p.x, p.weight, p.y, p.hidden, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 8.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return (hidden - 1) / kThreads + 1 + 5 + 5;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/race_that_ends_well",
    .title = "Mutant",
    .idea = "Lets every lane write the total, the same value",
    .regime = "",
    .launch = launch,
    .refuses = refuses,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
