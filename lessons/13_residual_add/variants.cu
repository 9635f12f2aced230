// Lesson 13 - Residual add, variant
// Changed    two kernels: one adds, the other norms what the first has stored.
// Unchanged  the row in registers, loads first, one barrier.
// Expect     the sum is read from memory once more: five tensors instead of four.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/operations/residual_add.hpp"

namespace {

constexpr int kVectors = 4;   // of a thread in the norm
constexpr int kAdders = 256;  // threads of a block in the addition

__global__ void add(
    const float4* x,   // (rows, vectors)  read once
    float4* residual,  // (rows, vectors)  read once, written once
    std::int64_t vectors) {
  const auto i = blockIdx.x * std::int64_t{kAdders} + threadIdx.x;
  if (i >= vectors) return;
  const float4 a = x[i], b = residual[i];
  residual[i] = {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

__global__ void __launch_bounds__(1024) rms_norm_of_sum(
    const float4* x,       // (rows, vectors)  read once
    const float4* weight,  // (vectors)        read once a row, or null
    float4* y,             // (rows, vectors)  written once
    int vectors, float eps, float bias) {
  x += blockIdx.x * std::int64_t{vectors};
  y += blockIdx.x * std::int64_t{vectors};
  float4 v[kVectors] = {}, w[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    w[k] = {1, 1, 1, 1};
    if (i < vectors) v[k] = x[i];
    if (i < vectors && weight != nullptr) {
      const float4 u = weight[i];
      w[k] = {u.x + bias, u.y + bias, u.z + bias, u.w + bias};
    }
  }
  float sum = 0;
#pragma unroll
  for (const float4& u : v) sum += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, distance);
  }
  __shared__ float partial[32];
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();  // every warp's sum is in partial[]
  sum = lane < blockDim.x / 32 ? partial[lane] : 0;
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, distance);
  }
  const float r = rsqrtf(sum / (4 * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    const float4 u = v[k], f = w[k];
    if (i < vectors) y[i] = {u.x * r * f.x, u.y * r * f.y, u.z * r * f.z, u.w * r * f.w};
  }
}

std::string unsupported(const rmsnorm::ResidualAdd& p) {
  if (p.dtype != rmsnorm::Dtype::fp32) {
    return "13_residual_add as two kernels knows fp32 only: in 16 bits, the sum would be rounded "
           "before it is normed";
  }
  const auto addresses =
      reinterpret_cast<std::size_t>(p.x) | reinterpret_cast<std::size_t>(p.weight) |
      reinterpret_cast<std::size_t>(p.residual) | reinterpret_cast<std::size_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0 || p.hidden > 16384) {
    return "13_residual_add needs hidden % 4 == 0, 16384 columns at most and tensors "
           "that begin at a multiple of 16 bytes: 1024 threads load 4 vectors each";
  }
  return "";
}

cudaError_t launch(const rmsnorm::ResidualAdd& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const int vectors = p.hidden / 4;
  const std::int64_t all = std::int64_t{p.rows} * vectors;
  const auto* const x = static_cast<const float4*>(p.x);
  auto* const residual = static_cast<float4*>(p.residual);
  const auto blocks = static_cast<unsigned>((all - 1) / kAdders + 1);
  add<<<blocks, kAdders, 0, stream>>>(x, residual, all);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  const int threads = ((vectors - 1) / kVectors / 32 + 1) * 32;
  rms_norm_of_sum<<<p.rows, threads, 0, stream>>>(
      residual, static_cast<const float4*>(p.weight), static_cast<float4*>(p.y), vectors, p.eps,
      p.weight_bias);
  return cudaGetLastError();
}

/// x, the residual, the sum and the weight are read; the sum and y are written.
rmsnorm::Traffic traffic(const rmsnorm::ResidualAdd& p) {
  const double row = 4.0 * p.hidden;
  return {.read = 3 * row + (p.weight == nullptr ? 0 : row), .written = 2 * row};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
int sum_depth(const rmsnorm::ResidualAdd& p) {
  return (p.hidden < 4 * kVectors ? p.hidden : 4 * kVectors) + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::ResidualAdd> variant{{
    .slug = "13_residual_add/two_kernels",
    .title = "Residual add: two kernels",
    .idea = "One kernel adds, the other norms the sum that the first has stored",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
