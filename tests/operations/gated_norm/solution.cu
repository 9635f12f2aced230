// Gated norm, our solution of the exercise: x, its gates and the weight wait in registers, and a
// row has one barrier. Several short rows share a block.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "common/operations/gated_norm.hpp"

namespace {

/// Sum over groups of kLanes neighbouring lanes. Every lane gets its group's.
template <int kLanes>
__device__ float group_sum(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// Threads of a block, if kThreads share a row, and lanes of a warp that do.
template <int kThreads>
constexpr int kBlock = kThreads <= 32 ? 128 : kThreads;
template <int kThreads>
constexpr int kLanes = kThreads <= 32 ? kThreads : 32;

/// z / (1 + exp(-z))
__device__ float silu(float z) {
  return z / (1 + expf(-z));
}

template <int kThreads, int kVectors>
__global__ void __launch_bounds__(kBlock<kThreads>) gated_norm(
    const float4* __restrict__ x,       // (rows, vectors)  read once
    const float4* __restrict__ z,       // (rows, vectors)  read once
    const float4* __restrict__ weight,  // (vectors)        once a warp
    float4* __restrict__ y,             // (rows, vectors)  written once
    int rows, int vectors, float eps) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  x += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  z += row * vectors;
  y += row * vectors;
  const auto keep = cuda::access_property::persisting();  // = evict_last, as in lesson 09
  x = cuda::associate_access_property(x, keep);
  z = cuda::associate_access_property(z, keep);
  const int end = row < rows ? vectors : 0;  // a place behind the rows idles

  // One branch around these loads: without it, the compiler moves them behind the first use of x.
  float4 g[kVectors] = {}, w[kVectors] = {};  // of z and the weight; zeros behind the row
  if (end > 0) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = threadIdx.x + k * kThreads;
      if (i < end) g[k] = z[i];
      if (i < end) w[k] = weight[i];
    }
  }
  float4 v[kVectors] = {};  // of x, likewise
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i < end) v[k] = x[i];
  }
  float sum = 0;
#pragma unroll
  for (const float4& u : v) sum += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
  sum = group_sum<kLanes<kThreads>>(sum);
  if constexpr (kThreads > 32) {
    __shared__ float partial[kThreads / 32];
    const int lane = threadIdx.x % 32;
    if (lane == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();  // every warp's sum is in partial[]
    sum = group_sum<32>(lane < kThreads / 32 ? partial[lane] : 0);
  }
  const float rstd = rsqrtf(sum / (4 * vectors) + eps);

#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= end) continue;
    y[i] = {
        v[k].x * rstd * w[k].x * silu(g[k].x), v[k].y * rstd * w[k].y * silu(g[k].y),
        v[k].z * rstd * w[k].z * silu(g[k].z), v[k].w * rstd * w[k].w * silu(g[k].w)};
  }
}

/// How rows are spread over threads, and the kernel for that.
struct Shape {
  int threads, vectors, rows;  // of a row, of a thread, of a block
  void (*kernel)(const float4*, const float4*, const float4*, float4*, int, int, float);
};
template <int kThreads, int kVectors>
constexpr Shape kShape = {
    kThreads, kVectors, kBlock<kThreads> / kThreads, gated_norm<kThreads, kVectors>};

/// The first with room for a row is taken. With 8 vectors, 1024 threads spill.
constexpr Shape kShapes[] = {kShape<8, 4>,   kShape<16, 4>,  kShape<32, 4>,  kShape<64, 4>,
                             kShape<128, 4>, kShape<256, 4>, kShape<512, 4>, kShape<512, 8>};
constexpr int kMaxColumns = 4 * 512 * 8;

const Shape& shape_for(const rmsnorm::GatedNorm& p) {
  const Shape* shape = kShapes;
  while (4 * shape->threads * shape->vectors < std::min(p.hidden, kMaxColumns)) ++shape;
  return *shape;
}

std::string unsupported(const rmsnorm::GatedNorm& p) {
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(p.x) | reinterpret_cast<std::uintptr_t>(p.z) |
      reinterpret_cast<std::uintptr_t>(p.weight) | reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.hidden <= kMaxColumns) return "";
  return "there is room for 16384 columns: 512 threads have 128 registers each";
}

cudaError_t launch(const rmsnorm::GatedNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Shape& shape = shape_for(p);
  shape.kernel<<<(p.rows - 1) / shape.rows + 1, dim3(shape.threads, shape.rows), 0, stream>>>(
      reinterpret_cast<const float4*>(p.x), reinterpret_cast<const float4*>(p.z),
      reinterpret_cast<const float4*>(p.weight), reinterpret_cast<float4*>(p.y), p.rows,
      p.hidden / 4, p.eps);
  return cudaGetLastError();
}

/// x, z and y once; weight once a warp, which may have several rows.
rmsnorm::Traffic traffic(const rmsnorm::GatedNorm& p) {
  const double row = 4.0 * p.hidden;
  const double rows_of_warp = std::max(1, 32 / shape_for(p).threads);
  return {.read = 2 * row + row / rows_of_warp, .written = row};
}

/// A thread's columns one by one, then the additions of two warps' shuffles.
int sum_depth(const rmsnorm::GatedNorm& p) {
  return std::min(p.hidden, 4 * shape_for(p).vectors) + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::GatedNorm> kernel{{
    .slug = "gated_norm",
    .title = "Gated norm",
    .idea = "The norm of each row, times the gate of each element",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
