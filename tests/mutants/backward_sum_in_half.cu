// Mutant: adds up dweight in the weight's type
// Lesson 13 in its plainest form; the mistake is marked.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

using rmsnorm::BackwardProblem;
using rmsnorm::Dtype;

constexpr int kThreads = 256;

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

/// A thread a row.
__global__ void backward_dx(BackwardProblem p) {
  const std::int64_t row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= p.rows) return;
  const float r = p.rstd[row];
  const auto n = [&](int col) { return load(p.x, p.dtype, row * p.hidden + col) * r; };
  const auto g = [&](int col) {
    float factor = 1;
    if (p.weight != nullptr) factor = load(p.weight, p.weight_dtype, col) + p.weight_bias;
    return load(p.dy, p.dtype, row * p.hidden + col) * factor;
  };
  float sum = 0;
  for (int col = 0; col < p.hidden; ++col) sum += g(col) * n(col);
  sum /= p.hidden;
  for (int col = 0; col < p.hidden; ++col) {
    store(p.dx, p.dtype, row * p.hidden + col, r * (g(col) - n(col) * sum));
  }
}

/// A thread a column.
__global__ void backward_dweight(BackwardProblem p) {
  const int col = blockIdx.x * kThreads + threadIdx.x;
  if (col >= p.hidden) return;
  store(p.dweight, p.weight_dtype, col, 0);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const std::int64_t i = row * p.hidden + col;
    const float product = load(p.dy, p.dtype, i) * (load(p.x, p.dtype, i) * p.rstd[row]);
    const float sum = load(p.dweight, p.weight_dtype, col) + product;
    store(p.dweight, p.weight_dtype, col, sum);  // <-- mistake
  }
}

cudaError_t launch(const BackwardProblem& p, cudaStream_t stream) {
  if (p.rows > 0) backward_dx<<<(p.rows - 1) / kThreads + 1, kThreads, 0, stream>>>(p);
  if (p.dweight != nullptr) {
    backward_dweight<<<(p.hidden - 1) / kThreads + 1, kThreads, 0, stream>>>(p);
  }
  return cudaGetLastError();
}

std::size_t workspace_bytes(const BackwardProblem&) {
  return 0;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/backward_sum_in_half",
    .title = "Mutant",
    .idea = "Adds up dweight in the weight's type",
    .regime = "",
    .backward = {
        launch, workspace_bytes, nullptr, [](const BackwardProblem&) { return rmsnorm::Traffic{}; },
        [](const BackwardProblem& p) { return p.hidden; },
        [](const BackwardProblem& p) { return p.rows; }},
}};

}  // namespace
