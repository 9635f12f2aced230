// Lesson 09 - Cache policy, variants
// Given      the kernel of lessons 08 and 09, with 512 threads for a row of any length.
// Changed    what the L2 is asked to do with the lines of x and with those of y.
// Expect     which of them makes the difference, and which explanations are wrong.
#include <cstdint>
#include <cuda/annotated_ptr>

#include "common/operations/rms_norm.hpp"

namespace {

constexpr int kThreads = 512;

/// Sum over the 32 lanes of a warp. Every lane gets it.
__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// What the L2 is to do with the lines of a launch.
struct Policies {
  cuda::access_property x, y;
};

/// kVectors: how many vectors of its row a thread keeps.
template <int kVectors>
__global__ void __launch_bounds__(kThreads) rms_norm_policies(
    const float4* __restrict__ x,       // (rows, hidden / 4)  read once
    const float4* __restrict__ weight,  // (hidden / 4)        read once a row
    float4* __restrict__ y,             // (rows, hidden / 4)  written once
    int vectors, float eps, Policies policies) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * vectors;
  x = cuda::associate_access_property(x + offset, policies.x);
  y = cuda::associate_access_property(y + offset, policies.y);

  constexpr bool kEarly = kVectors <= 2;  // as in lesson 08
  float4 v[kVectors] = {};                // of x; zeros past the row
  float4 w[kVectors];                     // of the weight; not set there
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i < vectors) v[k] = x[i];
    if (kEarly && i < vectors) w[k] = weight[i];
  }
  float sum = 0;
#pragma unroll
  for (const float4& u : v) {
    sum += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
  }

  __shared__ float partial[kThreads / 32];
  const int lane = threadIdx.x % 32;
  sum = warp_sum(sum);
  if (lane == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();  // every warp's sum is in partial[]
  sum = warp_sum(lane < kThreads / 32 ? partial[lane] : 0);
  const float rstd = rsqrtf(sum / (4 * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= vectors) continue;
    const float4 u = v[k], f = kEarly ? w[k] : weight[i];
    const float4 n = {u.x * rstd, u.y * rstd, u.z * rstd, u.w * rstd};
    y[i] = {n.x * f.x, n.y * f.y, n.z * f.z, n.w * f.w};
  }
}

constexpr int kMostVectors = 24;  // 96 of the 128 registers that each of 512 threads can have

std::string unsupported(const rmsnorm::RmsNorm& p) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(p.x) |
                         reinterpret_cast<std::uintptr_t>(p.weight) |
                         reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "09_cache_policy needs hidden % 4 == 0 and tensors at multiples of 16 bytes: "
           "a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.hidden <= 4 * kThreads * kMostVectors) return "";
  return "09_cache_policy has room for 49152 columns: 512 threads have 128 registers each";
}

/// Launches the kernel for 2, 6 or 24 vectors a thread.
template <int kVectors>
cudaError_t launch_for(const rmsnorm::RmsNorm& p, const Policies& policies, cudaStream_t stream) {
  if constexpr (kVectors < kMostVectors) {
    constexpr int kNext = kVectors == 2 ? 6 : kMostVectors;
    if (p.hidden > 4 * kThreads * kVectors) return launch_for<kNext>(p, policies, stream);
  }
  rms_norm_policies<kVectors><<<p.rows, kThreads, 0, stream>>>(
      reinterpret_cast<const float4*>(p.x), reinterpret_cast<const float4*>(p.weight),
      reinterpret_cast<float4*>(p.y), p.hidden / 4, p.eps, policies);
  return cudaGetLastError();
}

template <class OfX, class OfY>
cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  return launch_for<2>(p, {OfX(), OfY()}, stream);
}

rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  return {.read = 8.0 * p.hidden, .written = 4.0 * p.hidden};  // x and weight once; y once
}

/// Three additions in a vector, a thread's own, then those of two warps' shuffles.
int sum_depth(const rmsnorm::RmsNorm& p) {
  return 3 + (p.hidden / 4 - 1) / kThreads + 1 + 5 + 5;
}

template <class OfX, class OfY>
rmsnorm::Lesson<rmsnorm::RmsNorm> variant(const char* slug, const char* idea) {
  return {
      .slug = slug,
      .title = "Cache policy, variant",
      .idea = idea,
      .regime = "prefill",
      .launch = launch<OfX, OfY>,
      .unsupported = unsupported,
      .traffic = traffic,
      .sum_depth = sum_depth,
  };
}

using Normal = cuda::access_property::global;
using Last = cuda::access_property::persisting;
using First = cuda::access_property::streaming;
const rmsnorm::Registration<rmsnorm::RmsNorm> none(
    variant<Normal, Normal>("09_cache_policy/none", "No hint, in the form of one"));
const rmsnorm::Registration<rmsnorm::RmsNorm> x_first(
    variant<First, Normal>("09_cache_policy/x_first", "The lines of x go first"));
const rmsnorm::Registration<rmsnorm::RmsNorm> y_first(
    variant<Normal, First>("09_cache_policy/y_first", "The lines of y go first"));
const rmsnorm::Registration<rmsnorm::RmsNorm> both_last(
    variant<Last, Last>("09_cache_policy/both_last", "The lines of x and those of y go last"));

}  // namespace
