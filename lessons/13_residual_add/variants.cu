// Lesson 13 - Residual add, variant
// Changed    two kernels: one adds, the other normalises what the first has stored.
// Unchanged  the row in registers, loads first, one barrier, the blocks; launches that overlap.
// Expect     the sum is read from memory once more: five tensors instead of four.
#include <cstddef>
#include <cstdint>
#include <cuda/annotated_ptr>
#include <string>

#include "common/operations/residual_add.hpp"

namespace {

constexpr int kVectors = 4;  // of a thread, as in the lesson
constexpr int kMaxHidden = 1024 * 4 * kVectors;

/// Sum over the kThreads threads of a row. Every thread gets it.
template <int kThreads>
__device__ float row_sum(float value) {
  for (int distance = kThreads < 32 ? kThreads / 2 : 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  if constexpr (kThreads > 32) {
    __shared__ float partial[kThreads / 32];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's sum is in partial[]
    value = row_sum<32>(threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0);
  }
  return value;
}

/// Threads of a block, if kThreads threads share a row.
template <int kThreads>
constexpr int kBlock = kThreads > 32 ? kThreads : 128;

/// Waits until the kernel before this one in the stream has ended and what it wrote can be seen.
__device__ void wait_for_inputs() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900  // Hopper
  cudaGridDependencySynchronize();
#endif
}

/// Lets the grid of the next kernel in the stream be set up, if its launch allows it.
__device__ void let_next_begin() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// A tensor's row, from the L2 cache's lines that are to be kept.
__device__ const float4* kept(const float4* x, std::int64_t row, int vectors) {
  const auto keep = cuda::access_property::persisting();  // = evict_last
  return cuda::associate_access_property(x + row * vectors, keep);
}

template <int kThreads>
__global__ void __launch_bounds__(kBlock<kThreads>, 1024 / kBlock<kThreads>)
    add(const float4* x,   // (rows, vectors)  read once
        float4* residual,  // (rows, vectors)  read once, written once
        int rows, int vectors) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const int end = row < rows ? vectors : 0;
  x = kept(x, row, vectors);
  const float4* const before = kept(residual, row, vectors);
  residual += row * vectors;
  wait_for_inputs();
  float4 u[kVectors], v[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i < end) u[k] = x[i];
    if (i < end) v[k] = before[i];
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    u[k] = {u[k].x + v[k].x, u[k].y + v[k].y, u[k].z + v[k].z, u[k].w + v[k].w};
  }
  let_next_begin();
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i < end) residual[i] = u[k];
  }
}

template <int kThreads>
__global__ void __launch_bounds__(kBlock<kThreads>, 1024 / kBlock<kThreads>) rms_norm_of_sum(
    const float4* x,       // (rows, vectors)  read once
    const float4* weight,  // (vectors)        read once a warp, or null
    float4* y,             // (rows, vectors)  written once
    int rows, int vectors, float eps, float bias) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const int end = row < rows ? vectors : 0;
  x = kept(x, row, vectors);
  y += row * vectors;
  wait_for_inputs();
  float4 v[kVectors] = {}, w[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    w[k] = {1, 1, 1, 1};
    if (i < end) v[k] = x[i];
    if (i < end && weight != nullptr) w[k] = weight[i];
  }
  float squares = 0;
#pragma unroll
  for (const float4& u : v) squares += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
  let_next_begin();
  const float r = rsqrtf(row_sum<kThreads>(squares) / (4 * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    const float4 u = v[k];
    const float4 f = {w[k].x + bias, w[k].y + bias, w[k].z + bias, w[k].w + bias};
    if (i < end) y[i] = {u.x * r * f.x, u.y * r * f.y, u.z * r * f.z, u.w * r * f.w};
  }
}

/// Both kernels, and their block: the threads of a row, and the rows, as in the lesson.
struct Shape {
  decltype(&add<32>) first;
  decltype(&rms_norm_of_sum<32>) second;
  dim3 block;
};

/// The first shape with room for a row, or the last.
template <int kThreads = 8>
Shape shape_for(int hidden) {
  if constexpr (kThreads < 1024) {
    constexpr int kNext = kThreads < 128 ? 4 * kThreads : 2 * kThreads;
    if (hidden > kThreads * 4 * kVectors) return shape_for<kNext>(hidden);
  }
  return {add<kThreads>, rms_norm_of_sum<kThreads>, dim3(kThreads, kBlock<kThreads> / kThreads)};
}

std::string unsupported(const rmsnorm::ResidualAdd& p) {
  if (p.dtype != rmsnorm::Dtype::fp32) {
    return "13_residual_add as two kernels knows fp32 only: in 16 bits, the sum would be rounded "
           "before it is normalised";
  }
  const auto addresses =
      reinterpret_cast<std::size_t>(p.x) | reinterpret_cast<std::size_t>(p.weight) |
      reinterpret_cast<std::size_t>(p.residual) | reinterpret_cast<std::size_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0 || p.hidden > kMaxHidden) {
    return "13_residual_add needs hidden % 4 == 0, 16384 columns at most and tensors "
           "that begin at a multiple of 16 bytes: 1024 threads load 4 vectors each";
  }
  return "";
}

cudaError_t launch(const rmsnorm::ResidualAdd& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  const Shape shape = shape_for(p.hidden);
  config.blockDim = shape.block;
  config.gridDim = (p.rows - 1) / config.blockDim.y + 1;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = major >= 9 ? 1 : 0;  // Hopper
  const int vectors = p.hidden / 4;
  auto* const residual = static_cast<float4*>(p.residual);
  error = cudaLaunchKernelEx(
      &config, shape.first, static_cast<const float4*>(p.x), residual, p.rows, vectors);
  if (error != cudaSuccess) return error;
  return cudaLaunchKernelEx(
      &config, shape.second, static_cast<const float4*>(residual),
      static_cast<const float4*>(p.weight), static_cast<float4*>(p.y), p.rows, vectors, p.eps,
      p.weight_bias);
}

/// x, the residual and the sum are read, and the weight once a warp; the sum and y are written.
rmsnorm::Traffic traffic(const rmsnorm::ResidualAdd& p) {
  const double row = 4.0 * p.hidden;
  const double rows_of_warp = std::max(1.0, 32.0 / shape_for(p.hidden).block.x);
  return {.read = 3 * row + (p.weight == nullptr ? 0 : row / rows_of_warp), .written = 2 * row};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
int sum_depth(const rmsnorm::ResidualAdd& p) {
  return (p.hidden < 4 * kVectors ? p.hidden : 4 * kVectors) + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::ResidualAdd> variant{{
    .slug = "13_residual_add/two_kernels",
    .title = "Residual add: two kernels",
    .idea = "One kernel adds, the other normalises the sum that the first has stored",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
