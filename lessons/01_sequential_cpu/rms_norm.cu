// Lesson 01 - Sequential CPU
// Question   what is RMSNorm, and how exact is the plain loop?
// Here       two loops over each row, on the CPU: the definition, written down.
// Expect     the right result, with an error that grows with hidden: one long chain of additions.
#include <cmath>
#include <cstdint>

#include "common/operations/rms_norm.hpp"

namespace {

// [kernel]
/// Normalises one row.
void rms_norm_row(
    const float* x,       // (hidden)  read twice
    const float* weight,  // (hidden)  read once
    float* y,             // (hidden)  written once
    int hidden, float eps) {
  float sum = 0;
  for (int col = 0; col < hidden; ++col) sum += x[col] * x[col];

  // eps keeps a row of zeros from dividing by zero: it goes inside the root.
  const float rstd = 1 / std::sqrt(sum / hidden + eps);

  for (int col = 0; col < hidden; ++col) y[col] = x[col] * rstd * weight[col];
}
// [kernel]

/// Runs on the CPU, so the tensors are in host memory and the stream is of no use.
cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t) {
  for (int row = 0; row < p.rows; ++row) {
    // rows * hidden can exceed 2^31: the product must be taken in 64 bits.
    const auto offset = static_cast<std::int64_t>(row) * p.hidden;
    rms_norm_row(p.x + offset, p.weight, p.y + offset, p.hidden, p.eps);
  }
  return cudaSuccess;
}

/// These bytes are in the CPU's memory; its caches serve most of them.
rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  return {.read = 12.0 * p.hidden, .written = 4.0 * p.hidden};  // x twice, weight once; y once
}

/// The first square takes part in every later addition.
int sum_depth(const rmsnorm::RmsNorm& p) {
  return p.hidden;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> lesson{{
    .slug = "01_sequential_cpu",
    .title = "Sequential CPU",
    .idea = "Two loops over each row: the definition, and what fp32 makes of it",
    .regime = "",
    .memory = rmsnorm::Memory::host,
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
