// Lesson 08 - Registers
// Changed    the row stays in registers; up to 4096 columns, all loads go out before the first use.
// Unchanged  hidden decides how many threads share a row; one barrier; the arithmetic.
// Expect     one wait for memory instead of two: faster in decode and batch, not in prefill.
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
  // nothing to do, but stay: the shuffles name every lane of a warp.
  const int end = row < rows ? vectors : 0;
  constexpr bool kEarly = kVectors <= 2;  // else registers run short
  float4 v[kVectors] = {};                // of x; zeros past the row
  float4 w[kVectors];                     // of the weight; not set there
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = thread + k * kThreads;
    if (i < end) v[k] = x[i];
    if (kEarly && i < end) w[k] = weight[i];
  }
  float sum = 0;
#pragma unroll
  for (const float4& u : v) {
    sum += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
  }
  const float rstd = rsqrtf(row_sum<kThreads>(sum) / (4 * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = thread + k * kThreads;
    if (i >= end) continue;
    const float4 u = v[k], f = kEarly ? w[k] : weight[i];
    const float4 n = {u.x * rstd, u.y * rstd, u.z * rstd, u.w * rstd};
    y[i] = {n.x * f.x, n.y * f.y, n.z * f.z, n.w * f.w};
  }
}
// [kernel]

/// The kernels that there are: the threads of a row, how many vectors each of them keeps, the rows
/// of a block.
struct Shape {
  int threads, vectors, rows;
  void (*kernel)(const float4*, const float4*, float4*, int, int, float);
};
template <int kThreads, int kVectors>
constexpr Shape kShape{kThreads, kVectors, kRows<kThreads>, rms_norm_registers<kThreads, kVectors>};
const Shape kShapes[] = {kShape<8, 2>,    kShape<16, 2>,   kShape<32, 2>,   kShape<64, 2>,
                         kShape<128, 2>,  kShape<256, 2>,  kShape<512, 2>,  kShape<512, 4>,
                         kShape<1024, 4>, kShape<1024, 8>, kShape<1024, 12>};
constexpr int kMostColumns = 4 * 1024 * 12;

/// The first that can keep a row.
const Shape& shape_for(int hidden) {
  const Shape* shape = kShapes;
  while (hidden > 4 * shape->threads * shape->vectors) ++shape;
  return *shape;
}

std::string unsupported(const rmsnorm::RmsNorm& p) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(p.x) |
                         reinterpret_cast<std::uintptr_t>(p.weight) |
                         reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "08_registers needs hidden % 4 == 0 and tensors that begin at a multiple of 16 bytes: "
           "a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.hidden <= kMostColumns) return "";
  return "08_registers has room for 49152 columns: 1024 threads have 64 registers each";
}

cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const auto [threads, vectors, rows, kernel] = shape_for(p.hidden);
  kernel<<<(p.rows - 1) / rows + 1, rows * threads, 0, stream>>>(
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
  return 3 + shape_for(p.hidden).vectors + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> lesson{{
    .slug = "08_registers",
    .title = "Registers",
    .idea = "The row stays in registers; up to 4096 columns, all loads go out before the first use",
    .regime = "decode",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
