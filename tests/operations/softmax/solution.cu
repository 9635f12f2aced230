// Softmax, our solution of the exercise: a row waits in registers, and has one barrier, for the
// pairs of largest x and sum of its warps. Several short rows share a block.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "common/operations/softmax.hpp"

namespace {

/// The largest of kLanes neighbouring lanes, or their sum. Every lane gets its group's.
template <int kLanes>
__device__ float group_max(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  return value;
}
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

template <int kThreads, int kVectors>
__global__ void __launch_bounds__(kBlock<kThreads>) softmax(
    const float4* __restrict__ x,  // (rows, vectors)  read once
    float4* __restrict__ y,        // (rows, vectors)  written once
    int rows, int vectors) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  x += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  y += row * vectors;
  const auto keep = cuda::access_property::persisting();  // = evict_last, as in lesson 09
  x = cuda::associate_access_property(x, keep);
  const int end = row < rows ? vectors : 0;  // a place behind the rows idles

  float4 v[kVectors];  // of x; -Inf behind the row
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    v[k] = i < end ? x[i] : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
  }
  float max = -INFINITY;
#pragma unroll
  for (const float4& u : v) max = fmaxf(fmaxf(fmaxf(max, u.x), fmaxf(u.y, u.z)), u.w);
  max = group_max<kLanes<kThreads>>(max);
  const float shift = max == -INFINITY ? 0 : max;  // -Inf - -Inf is NaN
  float sum = 0;
#pragma unroll
  for (const float4& u : v) {
    sum += expf(u.x - shift) + expf(u.y - shift) + expf(u.z - shift) + expf(u.w - shift);
  }
  sum = group_sum<kLanes<kThreads>>(sum);

  if constexpr (kThreads > 32) {
    __shared__ float2 partial[kThreads / 32];  // of a warp: its largest x, and the sum with that
    const int lane = threadIdx.x % 32;
    if (lane == 0) partial[threadIdx.x / 32] = {max, sum};
    __syncthreads();  // every warp's pair is in partial[]
    const float2 warp = lane < kThreads / 32 ? partial[lane] : make_float2(-INFINITY, 0);
    max = group_max<32>(warp.x);
    sum = group_sum<32>(warp.x == -INFINITY ? warp.y : warp.y * expf(warp.x - max));
  }
  const float scale = 1 / sum;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= end) continue;
    const float4 u = v[k];
    y[i] = {
        expf(u.x - max) * scale, expf(u.y - max) * scale, expf(u.z - max) * scale,
        expf(u.w - max) * scale};
  }
}

/// How rows are spread over threads, and the kernel for that.
struct Shape {
  int threads, vectors, rows;  // of a row, of a thread, of a block
  void (*kernel)(const float4*, float4*, int, int);
};
template <int kThreads, int kVectors>
constexpr Shape kShape = {
    kThreads, kVectors, kBlock<kThreads> / kThreads, softmax<kThreads, kVectors>};

/// The first with room for a row is taken.
constexpr Shape kShapes[] = {kShape<8, 4>,   kShape<16, 4>,  kShape<32, 4>,
                             kShape<64, 4>,  kShape<128, 4>, kShape<256, 4>,
                             kShape<512, 4>, kShape<512, 8>, kShape<1024, 12>};
constexpr int kMaxColumns = 4 * 1024 * 12;

const Shape& shape_for(const rmsnorm::Softmax& p) {
  const Shape* shape = kShapes;
  while (4 * shape->threads * shape->vectors < std::min(p.hidden, kMaxColumns)) ++shape;
  return *shape;
}

std::string unsupported(const rmsnorm::Softmax& p) {
  const auto addresses =
      reinterpret_cast<std::uintptr_t>(p.x) | reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.hidden <= kMaxColumns) return "";
  return "there is room for 49152 columns: 1024 threads have 64 registers each";
}

cudaError_t launch(const rmsnorm::Softmax& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Shape& shape = shape_for(p);
  shape.kernel<<<(p.rows - 1) / shape.rows + 1, dim3(shape.threads, shape.rows), 0, stream>>>(
      reinterpret_cast<const float4*>(p.x), reinterpret_cast<float4*>(p.y), p.rows, p.hidden / 4);
  return cudaGetLastError();
}

/// x and y once.
rmsnorm::Traffic traffic(const rmsnorm::Softmax& p) {
  return {.read = 4.0 * p.hidden, .written = 4.0 * p.hidden};
}

/// A thread's columns one by one, the additions of two warps' shuffles, and 5 for the factor with
/// which a warp's sum becomes a part of the row's: expf, 4 u, and the product, 1 u.
int sum_depth(const rmsnorm::Softmax& p) {
  return std::min(p.hidden, 4 * shape_for(p).vectors) + 5 + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::Softmax> kernel{{
    .slug = "softmax",
    .title = "Softmax",
    .idea = "The largest x, the sum and the quotients of each row",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
