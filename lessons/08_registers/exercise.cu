// Exercise 08 - Registers
// Given      each thread reads its vectors of x twice: for the sum, and for the result.
// Goal       x crosses global memory once.
// Within     at most 32 wavefronts of shared memory a row, at most 1 barrier a row, the traffic
//            that this file predicts.
// Check it   ./rmsnorm exercise 8
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

/// Rows in a block, if kThreads threads share a row.
template <int kThreads>
constexpr int kRows = kThreads <= 32 ? 128 / kThreads : 1;

template <int kThreads, int kVectors>
__global__ void __launch_bounds__(1024) rms_norm_registers(
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
  // >>> your turn
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = thread + k * kThreads;
    if (i >= end) continue;
    const float4 v = x[i];
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  const float rstd = rsqrtf(row_sum<kThreads>(sum) / (4 * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = thread + k * kThreads;
    if (i >= end) continue;
    const float4 v = x[i];  // once more
    const float4 w = weight[i];
    const float4 n = {v.x * rstd, v.y * rstd, v.z * rstd, v.w * rstd};
    y[i] = {n.x * w.x, n.y * w.y, n.z * w.z, n.w * w.w};
  }
  // <<<
}

/// The threads of a row, and how many vectors of it each keeps. With 32 registers or less a thread,
/// an SM can be full of threads; a block of 1024 threads has at most 64 for each.
constexpr struct {
  int threads, vectors;
} kShapes[] = {{8, 2},   {16, 2},  {32, 2},   {64, 2},   {128, 2},  {256, 2},
               {512, 2}, {512, 4}, {1024, 4}, {1024, 8}, {1024, 12}};
constexpr int kLast = std::size(kShapes) - 1;

/// The first shape that can keep a row, or the last one.
int shape_for(int hidden) {
  int shape = 0;
  while (shape < kLast && hidden > 4 * kShapes[shape].threads * kShapes[shape].vectors) ++shape;
  return shape;
}

std::string refuses(const rmsnorm::Problem& p) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(p.x) |
                         reinterpret_cast<std::uintptr_t>(p.weight) |
                         reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "08_registers needs hidden % 4 == 0 and tensors that begin at a multiple of 16 bytes: "
           "a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.hidden <= 4 * kShapes[kLast].threads * kShapes[kLast].vectors) return "";
  return "08_registers has room for 49152 columns: 1024 threads have 64 registers each";
}

/// Launches the kernel that was compiled for kShapes[shape].
template <int kShape>
cudaError_t launch_for(int shape, const rmsnorm::Problem& p, cudaStream_t stream) {
  if constexpr (kShape > 0)
    if (shape < kShape) return launch_for<kShape - 1>(shape, p, stream);
  constexpr int kThreads = kShapes[kShape].threads;
  const int blocks = (p.rows - 1) / kRows<kThreads> + 1;
  const auto kernel = rms_norm_registers<kThreads, kShapes[kShape].vectors>;
  kernel<<<blocks, kRows<kThreads> * kThreads, 0, stream>>>(
      reinterpret_cast<const float4*>(p.x), reinterpret_cast<const float4*>(p.weight),
      reinterpret_cast<float4*>(p.y), p.rows, p.hidden / 4, p.eps);
  return cudaGetLastError();
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  return launch_for<kLast>(shape_for(p.hidden), p, stream);
}

/// x and y once; the weight once for all rows that one warp holds.
rmsnorm::Traffic traffic(int hidden) {
  const double rows_of_warp = std::max(1.0, 32.0 / kShapes[shape_for(hidden)].threads);
  return {.read = 4.0 * hidden * (1 + 1 / rows_of_warp), .written = 4.0 * hidden};
}

/// Three additions in a vector, a thread's own, then those of at most two warps' shuffles.
int sum_depth(int hidden) {
  return 3 + kShapes[shape_for(hidden)].vectors + 5 + 5;
}

const rmsnorm::Registration lesson{{
    .slug = "08_registers",
    .title = "Registers",
    .idea = "The row waits in registers, and every load goes out before the first is used",
    .regime = "decode",
    .launch = launch,
    .refuses = refuses,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
