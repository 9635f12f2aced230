// Mutant: moves vectors of 16 bytes from and to any address
// Lesson 06, without the row in shared memory; the mistake is marked.
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

constexpr int kThreads = 256;

__global__ void rms_norm_float4(
    const float4* __restrict__ x, const float4* __restrict__ weight, float4* __restrict__ y,
    int vectors, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * vectors;
  x += offset;
  y += offset;

  float sum = 0;
  for (int i = threadIdx.x; i < vectors; i += kThreads) {
    const float4 v = x[i];  // <-- seen
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }

  constexpr int kWarps = kThreads / 32;
  __shared__ float partial[kWarps];
  const int lane = threadIdx.x % 32;
  sum = warp_sum(sum);
  if (lane == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = warp_sum(lane < kWarps ? partial[lane] : 0);
  const float rstd = rsqrtf(sum / (4 * vectors) + eps);

  for (int i = threadIdx.x; i < vectors; i += kThreads) {
    const float4 v = x[i];
    const float4 w = weight[i];
    const float4 n = {v.x * rstd, v.y * rstd, v.z * rstd, v.w * rstd};
    y[i] = {n.x * w.x, n.y * w.y, n.z * w.z, n.w * w.w};
  }
}

std::string refuses(const rmsnorm::Problem& p) {
  return p.hidden % 4 == 0 ? ""
                           : "mutant/vectors_at_any_address needs whole vectors";  // <-- mistake
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  rms_norm_float4<<<p.rows, kThreads, 0, stream>>>(
      reinterpret_cast<const float4*>(p.x), reinterpret_cast<const float4*>(p.weight),
      reinterpret_cast<float4*>(p.y), p.hidden / 4, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 12.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return 3 + (hidden / 4 - 1) / kThreads + 1 + 5 + 5;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/vectors_at_any_address",
    .title = "Mutant",
    .idea = "Moves vectors of 16 bytes from and to any address",
    .regime = "",
    .launch = launch,
    .refuses = refuses,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
