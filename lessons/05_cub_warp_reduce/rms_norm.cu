// Lesson 05 - cub::WarpReduce
// Changed    the hand-written shuffles become a call of CUB, the library of CUDA algorithms.
// Unchanged  everything else: the loops, the barriers, the order of work.
// Expect     no gain: as many shuffles. But CUB takes any type and any operator.
#include <cstdint>
#include <cub/warp/warp_reduce.cuh>

#include "common/operations/rms_norm.hpp"

namespace {

constexpr int kThreads = 256;  // any multiple of 32 up to 1024
constexpr int kWarps = kThreads / 32;
static_assert(kThreads % 32 == 0 && kWarps <= 32);

using WarpReduce = cub::WarpReduce<float>;

// [kernel]
__global__ void rms_norm_cub_warp_reduce(
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
  __shared__ WarpReduce::TempStorage storage[kWarps];  // one for each warp
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  sum = WarpReduce(storage[warp]).Sum(sum);  // complete in lane 0 only
  if (lane == 0) partial[warp] = sum;
  __syncthreads();  // partial[] is complete, and storage[0] is free again
  if (warp == 0) {
    sum = WarpReduce(storage[0]).Sum(lane < kWarps ? partial[lane] : 0);
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
  const std::int64_t room = rmsnorm::shared_memory_room(rms_norm_cub_warp_reduce);
  if (bytes <= room) return "";
  return "05_cub_warp_reduce stages a row in shared memory: " + std::to_string(bytes) +
         " bytes, and a block has room for " + std::to_string(room);
}

cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error

  // More than 48 KiB of dynamic shared memory is only for kernels that ask for it.
  const int row_bytes = p.hidden * static_cast<int>(sizeof(float));
  const cudaError_t asked = cudaFuncSetAttribute(
      rms_norm_cub_warp_reduce, cudaFuncAttributeMaxDynamicSharedMemorySize, row_bytes);
  if (asked != cudaSuccess) return asked;

  rms_norm_cub_warp_reduce<<<p.rows, kThreads, row_bytes, stream>>>(
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
    .slug = "05_cub_warp_reduce",
    .title = "cub::WarpReduce",
    .idea = "The library's warp reduction: as many shuffles, for any type and operator",
    .regime = "decode",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
