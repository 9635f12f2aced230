// Lesson 07 - Multi-row
// Changed    hidden decides how many threads share a row, 8 to 1024; short rows share a block.
// Unchanged  vectors of 16 bytes, the row in shared memory, the arithmetic.
// Expect     faster in heads, by no idle thread and no barrier; and in wide, by more threads.
#include <algorithm>
#include <cstdint>

#include "common/operations/rms_norm.hpp"

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
  // nothing to do, but stay: the shuffles name every lane of a warp.
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

/// The kernels that there are: the threads that share a row, and the rows that share a block.
struct Shape {
  int threads, rows;
  void (*kernel)(const float4*, const float4*, float4*, int, int, float);
};
template <int kThreads>
constexpr Shape kShape{kThreads, kRows<kThreads>, rms_norm_multi_row<kThreads>};
const Shape kShapes[] = {kShape<8>,   kShape<16>,  kShape<32>,  kShape<64>,
                         kShape<128>, kShape<256>, kShape<512>, kShape<1024>};

/// About two vectors for each thread, and 1024 threads where few blocks fit an SM.
const Shape& shape_for(int hidden) {
  const Shape* shape = kShapes;
  while (shape->threads < 512 && hidden > shape->threads * 8) ++shape;
  return hidden > 16384 ? kShapes[7] : *shape;
}

std::string unsupported(const rmsnorm::RmsNorm& p) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(p.x) |
                         reinterpret_cast<std::uintptr_t>(p.weight) |
                         reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "07_multi_row needs hidden % 4 == 0 and tensors that begin at a multiple of 16 bytes: "
           "a 16-byte load needs a 16-byte address, in every row";
  }
  const std::int64_t bytes = p.hidden * std::int64_t{sizeof(float)};
  const std::int64_t room = rmsnorm::shared_memory_room(rms_norm_multi_row<1024>);
  if (bytes <= room) return "";
  return "07_multi_row stages a row in shared memory: " + std::to_string(bytes) +
         " bytes, and a block has room for " + std::to_string(room);
}

cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const auto [threads, rows, kernel] = shape_for(p.hidden);

  // More than 48 KiB of dynamic shared memory is only for kernels that ask for it.
  const int bytes = rows * p.hidden * static_cast<int>(sizeof(float));
  const cudaError_t asked =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (asked != cudaSuccess) return asked;

  kernel<<<(p.rows - 1) / rows + 1, rows * threads, bytes, stream>>>(
      reinterpret_cast<const float4*>(p.x), reinterpret_cast<const float4*>(p.weight),
      reinterpret_cast<float4*>(p.y), p.rows, p.hidden / 4, p.eps);
  return cudaGetLastError();
}

/// x and y once; the weight once for all rows that one warp holds.
rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  const double rows_of_warp = std::max(1.0, 32.0 / shape_for(p.hidden).threads);
  return {.read = 4.0 * p.hidden * (1 + 1 / rows_of_warp), .written = 4.0 * p.hidden};
}

/// Three additions in a vector, a thread's own, then those of at most two warps' shuffles.
int sum_depth(const rmsnorm::RmsNorm& p) {
  return 3 + (p.hidden / 4 - 1) / shape_for(p.hidden).threads + 1 + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> lesson{{
    .slug = "07_multi_row",
    .title = "Multi-row",
    .idea = "The row's length decides how many threads share it, and how many rows share a block",
    .regime = "heads",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
