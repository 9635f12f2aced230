// Mutant: does not store the sum in the residual's place
// Lesson 10; the mistake is marked.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

using rmsnorm::Dtype;
constexpr int kThreads = 32;

__device__ float load(const void* data, Dtype dtype, std::int64_t i) {
  if (dtype == Dtype::fp16) return __half2float(static_cast<const __half*>(data)[i]);
  if (dtype == Dtype::fp32) return static_cast<const float*>(data)[i];
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}

__device__ void store(void* data, Dtype dtype, std::int64_t i, float value) {
  if (dtype == Dtype::fp16) static_cast<__half*>(data)[i] = __float2half(value);
  if (dtype == Dtype::fp32) static_cast<float*>(data)[i] = value;
  if (dtype == Dtype::bf16) static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
}

__global__ void rms_norm_types(rmsnorm::TypedProblem p) {
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * p.hidden;
  float sum = 0;
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    const float value = load(p.x, p.dtype, begin + col) + load(p.residual, p.dtype, begin + col);
    sum += value * value;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, distance);
  }
  const float rstd = rsqrtf(sum / p.hidden + p.eps);

  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    const float value = load(p.x, p.dtype, begin + col) + load(p.residual, p.dtype, begin + col);
    float factor = 1;
    if (p.weight != nullptr) {
      factor = load(p.weight, p.weight_dtype, col) + p.weight_bias;
    }
    store(p.y, p.dtype, begin + col, value * rstd * factor);  // <-- mistake
  }
}

cudaError_t launch(const rmsnorm::TypedProblem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  rms_norm_types<<<p.rows, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(const rmsnorm::TypedProblem& p) {
  return {.read = 8.0 * p.hidden, .written = 4.0 * p.hidden};
}

int sum_depth(const rmsnorm::TypedProblem& p) {
  return (p.hidden - 1) / kThreads + 1 + 5;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/keeps_residual",
    .title = "Mutant",
    .idea = "Does not store the sum in the residual's place",
    .regime = "",
    .residual = true,
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
