// Lesson 12 - Launch overlap, variants
// Changed    where the trigger stands: in front of all else, behind the loads, behind the stores;
//            and the last of these, launched apart: without the attribute.
// Unchanged  the wait before the first load, the row in registers, one barrier; fp32 alone.
// Expect     all but apart to be faster in decode; which of them is the best depends on the L2.
#include <cstdint>
#include <string>

#include "common/operations/rms_norm.hpp"

namespace {

enum class Trigger { first, middle, last };

constexpr int kThreads = 256;  // of a block, which has one row
constexpr int kVectors = 4;    // of a thread, 4 columns each
constexpr int kMaxColumns = 4 * kThreads * kVectors;

/// The sum over the lanes of a warp. Every lane gets it.
__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

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

template <Trigger kTrigger>
__global__ void __launch_bounds__(kThreads) rms_norm_trigger(
    const float4* __restrict__ x,       // (rows, vectors)  read once
    const float4* __restrict__ weight,  // (vectors)        once a row
    float4* __restrict__ y,             // (rows, vectors)  written once
    int vectors, float eps) {
  if (kTrigger == Trigger::first) let_next_begin();
  x += blockIdx.x * std::int64_t{vectors};
  y += blockIdx.x * std::int64_t{vectors};
  float4 v[kVectors] = {}, w[kVectors] = {};
  wait_for_inputs();
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i < vectors) v[k] = x[i];
    if (i < vectors) w[k] = weight[i];
  }
  if (kTrigger == Trigger::middle) let_next_begin();
  float sum = 0;
#pragma unroll
  for (const float4& u : v) sum += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
  __shared__ float partial[kThreads / 32];
  sum = warp_sum(sum);
  const int lane = threadIdx.x % 32;
  if (lane == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();  // every warp's sum is in partial[]
  sum = warp_sum(lane < kThreads / 32 ? partial[lane] : 0);
  const float rstd = rsqrtf(sum / (4 * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    const float4 u = v[k], f = w[k];
    if (i < vectors)
      y[i] = {u.x * rstd * f.x, u.y * rstd * f.y, u.z * rstd * f.z, u.w * rstd * f.w};
  }
  if (kTrigger == Trigger::last) let_next_begin();
}

std::string unsupported(const rmsnorm::RmsNorm& p) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(p.x) |
                         reinterpret_cast<std::uintptr_t>(p.weight) |
                         reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "12_launch_overlap as a variant needs rows of whole 16-byte vectors at 16-byte "
           "addresses: a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.hidden <= kMaxColumns) return "";
  return "12_launch_overlap as a variant has room for 4096 columns: 256 threads load 4 vectors "
         "each";
}

template <Trigger kTrigger, bool kMayOverlap>
cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return error;

  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(p.rows);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = kMayOverlap && major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(
      &config, rms_norm_trigger<kTrigger>, reinterpret_cast<const float4*>(p.x),
      reinterpret_cast<const float4*>(p.weight), reinterpret_cast<float4*>(p.y), p.hidden / 4,
      p.eps);
}

/// x and y once, the weight once a row.
rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  const double row = 4.0 * p.hidden;
  return {.read = row + row, .written = row};
}

/// A thread's columns one by one, then the additions of two warps' shuffles.
int sum_depth(const rmsnorm::RmsNorm& p) {
  return (p.hidden < 4 * kVectors ? p.hidden : 4 * kVectors) + 5 + 5;
}

template <Trigger kTrigger, bool kMayOverlap = true>
rmsnorm::Lesson<rmsnorm::RmsNorm> variant(const char* slug, const char* idea) {
  return {
      .slug = slug,
      .title = "Launch overlap, variant",
      .idea = idea,
      .regime = "decode",
      .launch = launch<kTrigger, kMayOverlap>,
      .unsupported = unsupported,
      .traffic = traffic,
      .sum_depth = sum_depth,
  };
}

const rmsnorm::Registration<rmsnorm::RmsNorm> first{variant<Trigger::first>(
    "12_launch_overlap/first", "The next grid may be set up as soon as all blocks have begun")};
const rmsnorm::Registration<rmsnorm::RmsNorm> middle{variant<Trigger::middle>(
    "12_launch_overlap/middle", "The next grid may be set up when all loads have been issued")};
const rmsnorm::Registration<rmsnorm::RmsNorm> last{variant<Trigger::last>(
    "12_launch_overlap/last", "The next grid may be set up when all blocks are about to end")};
const rmsnorm::Registration<rmsnorm::RmsNorm> apart{variant<Trigger::last, false>(
    "12_launch_overlap/apart", "As last, but no launch begins before the one before it has ended")};

}  // namespace
