// LayerNorm, our solution of the exercise: a row waits in registers, and has one barrier for its
// mean and one for its variance. Several short rows share a block.
#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "common/operations/layer_norm.hpp"

namespace {

/// Sum over groups of kLanes neighbouring lanes. Every lane gets its group's.
template <int kLanes>
__device__ float group_sum(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// Sum over the kThreads threads of a row. Every thread gets it. `partial` holds a float for each
/// warp of a row of several, and is used once: one barrier is enough.
template <int kThreads>
__device__ float row_sum(float value, float* partial) {
  if constexpr (kThreads <= 32) {
    return group_sum<kThreads>(value);
  } else {
    const int lane = threadIdx.x % 32;
    value = group_sum<32>(value);
    if (lane == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's sum is in partial[]
    return group_sum<32>(lane < kThreads / 32 ? partial[lane] : 0);
  }
}

/// Threads of a block, if kThreads share a row.
template <int kThreads>
constexpr int kBlock = kThreads <= 32 ? 128 : kThreads;

template <int kThreads, int kVectors>
__global__ void __launch_bounds__(kBlock<kThreads>) layer_norm(
    const float4* __restrict__ x,       // (rows, vectors)  read once
    const float4* __restrict__ weight,  // (vectors)        once a warp
    const float4* __restrict__ bias,    // (vectors)        once a warp
    float4* __restrict__ y,             // (rows, vectors)  written once
    int rows, int vectors, float eps) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  x += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  y += row * vectors;
  const auto keep = cuda::access_property::persisting();  // = evict_last, as in lesson 09
  x = cuda::associate_access_property(x, keep);
  const int end = row < rows ? vectors : 0;  // a place behind the rows idles
  __shared__ float partial[2][32];           // a sum each

  float4 v[kVectors] = {};  // of x; zeros behind the row
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i < end) v[k] = x[i];
  }
  float sum = 0;
#pragma unroll
  for (const float4& u : v) sum += u.x + u.y + u.z + u.w;
  const float mean = row_sum<kThreads>(sum, partial[0]) / (4 * vectors);

  float squares = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (threadIdx.x + k * kThreads >= end) continue;  // zeros have a distance from the mean, too
    const float4 d = {v[k].x - mean, v[k].y - mean, v[k].z - mean, v[k].w - mean};
    squares += d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
  }
  const float rstd = rsqrtf(row_sum<kThreads>(squares, partial[1]) / (4 * vectors) + eps);

#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= end) continue;
    const float4 u = v[k], w = weight[i], b = bias[i];
    y[i] = {
        (u.x - mean) * rstd * w.x + b.x, (u.y - mean) * rstd * w.y + b.y,
        (u.z - mean) * rstd * w.z + b.z, (u.w - mean) * rstd * w.w + b.w};
  }
}

/// How rows are spread over threads, and the kernel for that.
struct Shape {
  int threads, vectors, rows;  // of a row, of a thread, of a block
  void (*kernel)(const float4*, const float4*, const float4*, float4*, int, int, float);
};
template <int kThreads, int kVectors>
constexpr Shape kShape = {
    kThreads, kVectors, kBlock<kThreads> / kThreads, layer_norm<kThreads, kVectors>};

/// The first with room for a row is taken. With 12 vectors, 1024 threads spill.
constexpr Shape kShapes[] = {kShape<8, 4>,   kShape<16, 4>,  kShape<32, 4>,
                             kShape<64, 4>,  kShape<128, 4>, kShape<256, 4>,
                             kShape<512, 4>, kShape<512, 8>, kShape<1024, 8>};
constexpr int kMaxColumns = 4 * 1024 * 8;

const Shape& shape_for(const rmsnorm::LayerNorm& p) {
  const Shape* shape = kShapes;
  while (4 * shape->threads * shape->vectors < std::min(p.hidden, kMaxColumns)) ++shape;
  return *shape;
}

std::string unsupported(const rmsnorm::LayerNorm& p) {
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(p.x) | reinterpret_cast<std::uintptr_t>(p.weight) |
      reinterpret_cast<std::uintptr_t>(p.bias) | reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.hidden <= kMaxColumns) return "";
  return "there is room for 32768 columns: 1024 threads have 64 registers each";
}

cudaError_t launch(const rmsnorm::LayerNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Shape& shape = shape_for(p);
  shape.kernel<<<(p.rows - 1) / shape.rows + 1, dim3(shape.threads, shape.rows), 0, stream>>>(
      reinterpret_cast<const float4*>(p.x), reinterpret_cast<const float4*>(p.weight),
      reinterpret_cast<const float4*>(p.bias), reinterpret_cast<float4*>(p.y), p.rows, p.hidden / 4,
      p.eps);
  return cudaGetLastError();
}

/// x and y once; weight and bias once a warp, which may have several rows.
rmsnorm::Traffic traffic(const rmsnorm::LayerNorm& p) {
  const double row = 4.0 * p.hidden;
  const double rows_of_warp = std::max(1, 32 / shape_for(p).threads);
  return {.read = row + 2 * row / rows_of_warp, .written = row};
}

/// A thread's columns one by one, then the additions of two warps' shuffles.
int sum_depth(const rmsnorm::LayerNorm& p) {
  return std::min(p.hidden, 4 * shape_for(p).vectors) + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::LayerNorm> kernel{{
    .slug = "layer_norm",
    .title = "LayerNorm",
    .idea = "The mean, the variance and the norm of each row",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
