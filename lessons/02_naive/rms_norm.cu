// Lesson 02 - Naive
// Changed    the loops move to the GPU, and 256 threads share the work of each row.
// Unchanged  the arithmetic: sum the squares, take the root, scale.
// Expect     faster where rows are long and many: the lanes of a warp use all that they fetch.
#include <cstdint>

#include "common/operations/rms_norm.hpp"

namespace {

constexpr int kLevels = 8;              // of the tree, which halves the threads down to 1
constexpr int kThreads = 1 << kLevels;  // so it is a power of two: 256

// [variant]
/// The kernel everybody writes first: lesson 01's loops, one thread a row.
__global__ void rms_norm_thread_per_row(
    const float* __restrict__ x,       // (rows, hidden)  read twice
    const float* __restrict__ weight,  // (hidden)        read once a row
    float* __restrict__ y,             // (rows, hidden)  written once
    int rows, int hidden, float eps) {
  const auto first = static_cast<std::int64_t>(blockIdx.x) * kThreads;
  const auto row = first + threadIdx.x;
  if (row >= rows) return;  // the last block may have threads to spare
  x += row * hidden;        // in 64 bits: rows * hidden can exceed 2^31
  y += row * hidden;

  // At any time the 32 threads of a warp read 32 different rows.
  float sum = 0;
  for (int col = 0; col < hidden; ++col) sum += x[col] * x[col];
  const float rstd = rsqrtf(sum / hidden + eps);
  for (int col = 0; col < hidden; ++col) y[col] = x[col] * rstd * weight[col];
}

cudaError_t launch_thread_per_row(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const int blocks = (p.rows - 1) / kThreads + 1;
  rms_norm_thread_per_row<<<blocks, kThreads, 0, stream>>>(
      p.x, p.weight, p.y, p.rows, p.hidden, p.eps);
  return cudaGetLastError();
}

/// A sector for each lane's 4 bytes of x and y; the rows of a warp share those of the weight.
rmsnorm::Traffic thread_per_row_traffic(const rmsnorm::RmsNorm& p) {
  const double warps = (p.rows - 1) / 32 + 1;
  return {.read = (32.0 + 32.0 + 32.0 * warps / p.rows) * p.hidden, .written = 32.0 * p.hidden};
}

/// The first square takes part in every later addition.
int thread_per_row_sum_depth(const rmsnorm::RmsNorm& p) {
  return p.hidden;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> variant{{
    .slug = "02_naive/thread_per_row",
    .title = "One thread a row",
    .idea = "The kernel everybody writes first: one thread has one row, and lesson 01's loops",
    .regime = "prefill",
    .launch = launch_thread_per_row,
    .traffic = thread_per_row_traffic,
    .sum_depth = thread_per_row_sum_depth,
}};
// [variant]

// [kernel]
__global__ void rms_norm_naive(
    const float* __restrict__ x,       // (rows, hidden)  read twice
    const float* __restrict__ weight,  // (hidden)        read once a row
    float* __restrict__ y,             // (rows, hidden)  written once
    int hidden, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * hidden;
  x += offset;  // in 64 bits: rows * hidden can exceed 2^31
  y += offset;

  // Thread t adds columns t, t + 256, t + 512, ...: at any time, the threads
  // of a warp read 32 neighbours.
  float sum = 0;
  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    sum += x[col] * x[col];
  }

  // The tree: half of the threads add the other half's sums, then half of
  // those, until partial[0] holds the sum of the row.
  __shared__ float partial[kThreads];
  partial[threadIdx.x] = sum;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();  // the sums that are read next have been written
    if (threadIdx.x < half) {
      partial[threadIdx.x] += partial[threadIdx.x + half];
    }
  }
  __syncthreads();  // partial[0] is complete
  const float rstd = rsqrtf(partial[0] / hidden + eps);

  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    y[col] = x[col] * rstd * weight[col];
  }
}
// [kernel]

cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  rms_norm_naive<<<p.rows, kThreads, 0, stream>>>(p.x, p.weight, p.y, p.hidden, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  return {.read = 12.0 * p.hidden, .written = 4.0 * p.hidden};  // x twice, weight once; y once
}

/// A thread's own additions, then the tree's.
int sum_depth(const rmsnorm::RmsNorm& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> lesson{{
    .slug = "02_naive",
    .title = "Naive",
    .idea = "One block per row: neighbouring threads read neighbouring columns, a tree adds up",
    .regime = "prefill",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
