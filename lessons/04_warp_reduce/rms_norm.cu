// Lesson 04 - Warp reduce
// Changed    the tree becomes five shuffles in each warp; then one warp adds the warps' sums.
// Unchanged  one block a row; the row stays in shared memory.
// Expect     2 barriers instead of 9: faster where latency is the limit, not where bandwidth is.
#include <cstdint>

#include "common/operations/rms_norm.hpp"

namespace {

constexpr int kThreads = 256;  // any multiple of 32 up to 1024
constexpr int kWarps = kThreads / 32;
static_assert(kThreads % 32 == 0 && kWarps <= 32);

// [warp_sum]
/// Sum over the 32 lanes of a warp. Every lane gets it.
__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}
// [warp_sum]

// [kernel]
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

  // Each warp adds its own sums, then warp 0 adds the warps'.
  __shared__ float partial[kWarps];
  __shared__ float total;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();  // every warp's sum is in partial[]
  if (warp == 0) {
    sum = warp_sum(lane < kWarps ? partial[lane] : 0);
    if (lane == 0) total = sum;
  }
  __syncthreads();  // total is there for every warp
  const float rstd = rsqrtf(total / hidden + eps);

  for (int col = threadIdx.x; col < hidden; col += kThreads) {
    y[col] = staged[col] * rstd * weight[col];
  }
}
// [kernel]

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
    .idea = "Five shuffles per warp replace most of the tree, and most of its barriers",
    .regime = "decode",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
