// Mutant: loses the share of the last rows
// Lesson 13 in its plainest form; the mistake is marked.
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

using rmsnorm::BackwardProblem;

constexpr int kThreads = 256;
constexpr int kBlockRows = 4;

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

__global__ void backward_shares(
    const float* x, const float* rstd, const float* dy, float* shares, int rows, int hidden) {
  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    float sum = 0;
    for (int row = blockIdx.x * kBlockRows; row < (blockIdx.x + 1) * kBlockRows; ++row) {
      if (row >= rows) break;
      const std::int64_t i = row * std::int64_t{hidden} + col;
      sum += dy[i] * (x[i] * rstd[row]);
    }
    shares[blockIdx.x * std::int64_t{hidden} + col] = sum;
  }
}

__global__ void add_shares(const float* shares, float* dweight, int blocks, int hidden) {
  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    float sum = 0;
    for (int i = 0; i < blocks; ++i) sum += shares[i * std::int64_t{hidden} + col];
    dweight[col] = sum;
  }
}

cudaError_t launch(const BackwardProblem& p, cudaStream_t stream) {
  const auto *x = static_cast<const float*>(p.x), *weight = static_cast<const float*>(p.weight);
  const auto* dy = static_cast<const float*>(p.dy);
  auto *dx = static_cast<float*>(p.dx), *dweight = static_cast<float*>(p.dweight);
  const int blocks = (p.rows + kBlockRows - 1) / kBlockRows;
  auto* shares = static_cast<float*>(p.workspace);
  if (blocks > 0) {
    backward_dx<<<(p.rows - 1) / kThreads + 1, kThreads, 0, stream>>>(
        x, weight, p.rstd, dy, dx, p.rows, p.hidden, p.weight_bias);
    backward_shares<<<blocks, kThreads, 0, stream>>>(x, p.rstd, dy, shares, p.rows, p.hidden);
  }
  add_shares<<<1, kThreads, 0, stream>>>(
      shares, dweight, p.rows / kBlockRows, p.hidden);  // <-- mistake
  return cudaGetLastError();
}

std::string refuses(const BackwardProblem& p) {
  const bool is_fp32 = p.dtype == rmsnorm::Dtype::fp32 && p.weight != nullptr;
  return is_fp32 ? "" : "the mutant has kernels for fp32 and a weight";
}

std::size_t workspace_bytes(const BackwardProblem& p) {
  return sizeof(float) * ((p.rows + 3) / 4) * p.hidden;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/backward_last_share",
    .title = "Mutant",
    .idea = "Loses the share of the last rows",
    .regime = "",
    .backward = {
        launch, workspace_bytes, refuses, [](const BackwardProblem&) { return rmsnorm::Traffic{}; },
        [](const BackwardProblem& p) { return p.hidden; },
        [](const BackwardProblem& p) { return p.rows; }},
}};

}  // namespace
