// Exercise 04 - Warp reduce
// Given      lesson 03's kernel: its tree has 9 barriers.
// Goal       at most 2 barriers per row.
// Within     at most 310 wavefronts of shared memory per row, the traffic that this file predicts.
// Check it   ./rmsnorm exercise 4
#include <cstdint>

#include "common/operations/rms_norm.hpp"

namespace {

constexpr int kThreads = 256;  // any multiple of 32 up to 1024
constexpr int kWarps = kThreads / 32;
static_assert(kThreads % 32 == 0 && kWarps <= 32);

// >>> your turn
__global__ void rms_norm_warp_reduce(
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
  const float total = partial[0];
  // <<<
  const float rstd = rsqrtf(total / hidden + eps);

  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    y[col] = staged[col] * rstd * weight[col];
  }
}

std::string unsupported(const rmsnorm::RmsNorm& p) {
  const std::int64_t bytes = p.hidden * std::int64_t{sizeof(float)};
  const std::int64_t room = rmsnorm::shared_memory_room(rms_norm_warp_reduce);
  if (bytes <= room) return "";
  return "04_warp_reduce stages a row in shared memory: " + std::to_string(bytes) +
         " bytes, and a block has room for " + std::to_string(room);
}

cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error

  // More than 48 KiB of dynamic shared memory is only for kernels that ask for it.
  const int row_bytes = p.hidden * static_cast<int>(sizeof(float));
  const cudaError_t asked = cudaFuncSetAttribute(
      rms_norm_warp_reduce, cudaFuncAttributeMaxDynamicSharedMemorySize, row_bytes);
  if (asked != cudaSuccess) return asked;

  rms_norm_warp_reduce<<<p.rows, kThreads, row_bytes, stream>>>(
      p.x, p.weight, p.y, p.hidden, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  return {.read = 8.0 * p.hidden, .written = 4.0 * p.hidden};  // x and weight once; y once
}

/// A thread's own additions, then those of two warps' shuffles.
int sum_depth(const rmsnorm::RmsNorm& p) {
  return (p.hidden - 1) / kThreads + 1 + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> lesson{{
    .slug = "04_warp_reduce",
    .title = "Warp reduce",
    .idea = "Five shuffles a warp replace most of the tree, and most of its barriers",
    .regime = "decode",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
