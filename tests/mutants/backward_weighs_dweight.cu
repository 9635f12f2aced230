// Mutant: multiplies dweight by the weight
// Lesson 13 in its plainest form; the mistake is marked.
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

using rmsnorm::BackwardProblem;

constexpr int kThreads = 256;

/// A thread a row.
__global__ void backward_dx(
    const float* x, const float* weight, const float* rstd, const float* dy, float* dx, int rows,
    int hidden, float bias) {
  const std::int64_t row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= rows) return;
  x += row * hidden;
  dy += row * hidden;
  const float r = rstd[row];
  float sum = 0;
  for (int col = 0; col < hidden; ++col) {
    sum += dy[col] * (weight[col] + bias) * (x[col] * r);
  }
  sum /= hidden;
  for (int col = 0; col < hidden; ++col) {
    const float g = dy[col] * (weight[col] + bias);
    dx[row * hidden + col] = r * (g - x[col] * r * sum);
  }
}

__global__ void backward_dweight(
    const float* x, const float* rstd, const float* dy, const float* weight, float* dweight,
    int rows, int hidden) {
  const int col = blockIdx.x * kThreads + threadIdx.x;
  if (col >= hidden) return;
  float sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t i = row * hidden + col;
    sum += dy[i] * weight[col] * (x[i] * rstd[row]);  // <-- mistake
  }
  dweight[col] = sum;
}

cudaError_t launch(const BackwardProblem& p, cudaStream_t stream) {
  const auto *x = static_cast<const float*>(p.x), *weight = static_cast<const float*>(p.weight);
  const auto* dy = static_cast<const float*>(p.dy);
  auto *dx = static_cast<float*>(p.dx), *dweight = static_cast<float*>(p.dweight);
  if (p.rows > 0) {
    backward_dx<<<(p.rows - 1) / kThreads + 1, kThreads, 0, stream>>>(
        x, weight, p.rstd, dy, dx, p.rows, p.hidden, p.weight_bias);
  }
  backward_dweight<<<(p.hidden - 1) / kThreads + 1, kThreads, 0, stream>>>(
      x, p.rstd, dy, weight, dweight, p.rows, p.hidden);
  return cudaGetLastError();
}

std::string refuses(const BackwardProblem& p) {
  const bool is_fp32 = p.dtype == rmsnorm::Dtype::fp32 && p.weight != nullptr;
  return is_fp32 ? "" : "the mutant has kernels for fp32 and a weight";
}

std::size_t workspace_bytes(const BackwardProblem&) {
  return 0;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/backward_weighs_dweight",
    .title = "Mutant",
    .idea = "Multiplies dweight by the weight",
    .regime = "",
    .backward = {
        launch, workspace_bytes, refuses, [](const BackwardProblem&) { return rmsnorm::Traffic{}; },
        [](const BackwardProblem& p) { return p.hidden; },
        [](const BackwardProblem& p) { return p.rows; }},
}};

}  // namespace
