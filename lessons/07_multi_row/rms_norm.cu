// Lesson 07 - Multi-row
// Changed    hidden decides how many threads share a row, 8 to 1024; short rows share a block.
// Unchanged  vectors of 16 bytes, the row in shared memory, the arithmetic.
// Expect     no idle thread and no barrier on short rows; enough loads in flight on long ones.
#include <algorithm>
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

/// Sum over groups of kLanes neighbouring lanes. Every lane gets its group's.
template <int kLanes>
__device__ float group_sum(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// Sum over the kThreads threads of a row. Every thread gets it.
template <int kThreads>
__device__ float row_sum(float value) {
  if constexpr (kThreads <= 32) {
    return group_sum<kThreads>(value);  // lanes of one warp: no barrier
  } else {
    __shared__ float partial[kThreads / 32];
    const int lane = threadIdx.x % 32;
    value = group_sum<32>(value);
    if (lane == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's sum is in partial[]
    return group_sum<32>(lane < kThreads / 32 ? partial[lane] : 0);
  }
}

// [kernel]
/// Rows in a block, if kThreads threads share a row.
template <int kThreads>
constexpr int kRows = kThreads <= 32 ? 128 / kThreads : 1;

template <int kThreads>
__global__ void rms_norm_multi_row(
    const float4* __restrict__ x,       // (rows, hidden / 4)  read once
    const float4* __restrict__ weight,  // (hidden / 4)        once a warp
    float4* __restrict__ y,             // (rows, hidden / 4)  written once
    int rows, int vectors, float eps) {
  const int place = kRows<kThreads> == 1 ? 0 : threadIdx.x / kThreads;
  const int thread = threadIdx.x - place * kThreads;  // within the row
  const std::int64_t row = blockIdx.x * std::int64_t{kRows<kThreads>} + place;
  x += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  y += row * vectors;

  // The last block may have more places than rows are left. Their threads get
  // nothing to do, but stay: the shuffles need every lane of a warp.
  const int end = row < rows ? vectors : 0;

  extern __shared__ float4 shared[];
  float4* staged = shared + place * vectors;  // (hidden / 4)  the row of x
  float sum = 0;
#pragma unroll 2
  for (int i = thread; i < end; i += kThreads) {
    const float4 v = x[i];
    staged[i] = v;  // for this same thread, below: no barrier
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  const float rstd = rsqrtf(row_sum<kThreads>(sum) / (4 * vectors) + eps);
#pragma unroll 2
  for (int i = thread; i < end; i += kThreads) {
    const float4 v = staged[i];
    const float4 w = weight[i];
    const float4 n = {v.x * rstd, v.y * rstd, v.z * rstd, v.w * rstd};
    y[i] = {n.x * w.x, n.y * w.y, n.z * w.z, n.w * w.w};
  }
}
// [kernel]

/// How many threads share a row: about two vectors for each, and 1024 where few blocks fit an SM.
int threads_for(int hidden) {
  int threads = 8;
  while (threads < 512 && hidden > threads * 8) threads *= 2;
  return hidden > 16384 ? 1024 : threads;
}

std::string refuses(const rmsnorm::Problem& p) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(p.x) |
                         reinterpret_cast<std::uintptr_t>(p.weight) |
                         reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "07_multi_row needs hidden % 4 == 0 and tensors that begin at a multiple of 16 bytes: "
           "a 16-byte load needs a 16-byte address, in every row";
  }
  int most = 0;
  cudaFuncAttributes kernel{};
  if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) != cudaSuccess ||
      cudaFuncGetAttributes(&kernel, rms_norm_multi_row<1024>) != cudaSuccess) {
    return cudaGetErrorString(cudaGetLastError());
  }
  const auto room = most - static_cast<std::int64_t>(kernel.sharedSizeBytes);
  const std::int64_t bytes = p.hidden * std::int64_t{sizeof(float)};
  if (bytes <= room) return "";
  return "07_multi_row stages a row in shared memory: " + std::to_string(bytes) +
         " bytes, and a block has room for " + std::to_string(room);
}

/// Launches the kernel that was compiled for `threads`, 8 to kThreads.
template <int kThreads>
cudaError_t launch_for(int threads, const rmsnorm::Problem& p, cudaStream_t stream) {
  if constexpr (kThreads > 8) {
    if (threads < kThreads) return launch_for<kThreads / 2>(threads, p, stream);
  }
  const int blocks = (p.rows - 1) / kRows<kThreads> + 1;
  const int bytes = kRows<kThreads> * p.hidden * static_cast<int>(sizeof(float));
  const auto kernel = rms_norm_multi_row<kThreads>;
  const cudaError_t asked =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (asked != cudaSuccess) return asked;
  kernel<<<blocks, kRows<kThreads> * kThreads, bytes, stream>>>(
      reinterpret_cast<const float4*>(p.x), reinterpret_cast<const float4*>(p.weight),
      reinterpret_cast<float4*>(p.y), p.rows, p.hidden / 4, p.eps);
  return cudaGetLastError();
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  return launch_for<1024>(threads_for(p.hidden), p, stream);
}

/// x and y once; the weight once for all rows that one warp holds.
rmsnorm::Traffic traffic(int hidden) {
  const double rows_of_warp = std::max(1.0, 32.0 / threads_for(hidden));
  return {.read = 4.0 * hidden * (1 + 1 / rows_of_warp), .written = 4.0 * hidden};
}

/// Three additions in a vector, a thread's own, then those of at most two warps' shuffles.
int sum_depth(int hidden) {
  return 3 + (hidden / 4 - 1) / threads_for(hidden) + 1 + 5 + 5;
}

const rmsnorm::Registration lesson{{
    .slug = "07_multi_row",
    .title = "Multi-row",
    .idea = "The row's length decides how many threads share it, and how many rows share a block",
    .regime = "heads",
    .launch = launch,
    .refuses = refuses,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
