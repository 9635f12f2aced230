// Lesson 03 - Shared memory
// Changed    the first loop leaves the row in shared memory, the second loop takes it from there.
// Unchanged  one block a row, and the tree that adds the threads' sums.
// Expect     x is read from global memory once instead of twice: three quarters of the traffic.
#include <cstdint>

#include "common/operations/rms_norm.hpp"

namespace {

constexpr int kLevels = 8;              // of the tree, which halves the threads down to 1
constexpr int kThreads = 1 << kLevels;  // so it is a power of two: 256

// [kernel]
__global__ void rms_norm_shared_memory(
    const float* __restrict__ x,       // (rows, hidden)  read once
    const float* __restrict__ weight,  // (hidden)        read once a row
    float* __restrict__ y,             // (rows, hidden)  written once
    int hidden, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * hidden;
  x += offset;  // in 64 bits: rows * hidden can exceed 2^31
  y += offset;

  extern __shared__ float staged[];  // (hidden)        the row of x
  float sum = 0;
  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    const float value = x[col];
    staged[col] = value;  // for this same thread, below: no barrier
    sum += value * value;
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
    y[col] = staged[col] * rstd * weight[col];
  }
}
// [kernel]

std::string unsupported(const rmsnorm::RmsNorm& p) {
  const std::int64_t bytes = p.hidden * std::int64_t{sizeof(float)};
  const std::int64_t room = rmsnorm::shared_memory_room(rms_norm_shared_memory);
  if (bytes <= room) return "";
  return "03_shared_memory stages a row in shared memory: " + std::to_string(bytes) +
         " bytes, and a block has room for " + std::to_string(room);
}

cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error

  // More than 48 KiB of dynamic shared memory is only for kernels that ask for it.
  const int row_bytes = p.hidden * static_cast<int>(sizeof(float));
  const cudaError_t asked = cudaFuncSetAttribute(
      rms_norm_shared_memory, cudaFuncAttributeMaxDynamicSharedMemorySize, row_bytes);
  if (asked != cudaSuccess) return asked;

  rms_norm_shared_memory<<<p.rows, kThreads, row_bytes, stream>>>(
      p.x, p.weight, p.y, p.hidden, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  return {.read = 8.0 * p.hidden, .written = 4.0 * p.hidden};  // x and weight once; y once
}

/// A thread's own additions, then the tree's.
int sum_depth(const rmsnorm::RmsNorm& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> lesson{{
    .slug = "03_shared_memory",
    .title = "Shared memory",
    .idea = "The row stays in shared memory for its second use: x is read once",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
