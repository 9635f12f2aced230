// Lesson 06 - float4
// Changed    x, weight and y move in vectors of 16 bytes: four floats in one load or store.
// Unchanged  one block per row, the row in shared memory, warp shuffles, two barriers.
// Expect     faster in decode and wide, by fewer instructions for the same bytes; not in prefill.
#include <cstdint>

#include "common/operations/rms_norm.hpp"

namespace {

/// Sum over the 32 lanes of a warp. Every lane gets it.
__device__ float warp_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

// [kernel]
/// kThreads: any multiple of 32 up to 1024.
/// kUnroll: how many vectors of x a thread asks for before it waits for one.
template <int kThreads, int kUnroll>
__global__ void rms_norm_float4(
    const float4* __restrict__ x,       // (rows, hidden / 4)  read once
    const float4* __restrict__ weight,  // (hidden / 4)        read once a row
    float4* __restrict__ y,             // (rows, hidden / 4)  written once
    int vectors, float eps) {
  const auto offset = static_cast<std::int64_t>(blockIdx.x) * vectors;
  x += offset;  // in 64 bits: rows * hidden can exceed 2^31
  y += offset;

  extern __shared__ float4 staged[];  // (hidden / 4)        the row of x
  float sum = 0;
#pragma unroll kUnroll
  for (int i = threadIdx.x; i < vectors; i += kThreads) {
    const float4 v = x[i];
    staged[i] = v;  // for this same thread, below: no barrier
    sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }

  // Each warp adds its own sums, then warp 0 adds the warps'.
  constexpr int kWarps = kThreads / 32;
  __shared__ float partial[kWarps];
  __shared__ float total;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();  // every warp's sum is in partial[]
  if (warp == 0) {
    sum = warp_sum(lane < kWarps ? partial[lane] : 0);
    if (lane == 0) total = sum;
  }
  __syncthreads();  // total is there for every warp
  const float rstd = rsqrtf(total / (4 * vectors) + eps);

#pragma unroll kUnroll
  for (int i = threadIdx.x; i < vectors; i += kThreads) {
    const float4 v = staged[i];
    const float4 w = weight[i];
    const float4 n = {v.x * rstd, v.y * rstd, v.z * rstd, v.w * rstd};
    y[i] = {n.x * w.x, n.y * w.y, n.z * w.z, n.w * w.w};
  }
}
// [kernel]

template <int kThreads, int kUnroll>
std::string unsupported(const rmsnorm::RmsNorm& p) {
  const auto addresses = reinterpret_cast<std::uintptr_t>(p.x) |
                         reinterpret_cast<std::uintptr_t>(p.weight) |
                         reinterpret_cast<std::uintptr_t>(p.y);
  if (p.hidden % 4 != 0 || addresses % 16 != 0) {
    return "06_float4 needs hidden % 4 == 0 and tensors that begin at a multiple of 16 bytes: "
           "a 16-byte load needs a 16-byte address, in every row";
  }

  const std::int64_t bytes = p.hidden * std::int64_t{sizeof(float)};
  const std::int64_t room = rmsnorm::shared_memory_room(rms_norm_float4<kThreads, kUnroll>);
  if (bytes <= room) return "";
  return "06_float4 stages a row in shared memory: " + std::to_string(bytes) +
         " bytes, and a block has room for " + std::to_string(room);
}

template <int kThreads, int kUnroll>
cudaError_t launch(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error

  // More than 48 KiB of dynamic shared memory is only for kernels that ask for it.
  const int row_bytes = p.hidden * static_cast<int>(sizeof(float));
  const auto kernel = rms_norm_float4<kThreads, kUnroll>;
  const cudaError_t asked =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, row_bytes);
  if (asked != cudaSuccess) return asked;

  kernel<<<p.rows, kThreads, row_bytes, stream>>>(
      reinterpret_cast<const float4*>(p.x), reinterpret_cast<const float4*>(p.weight),
      reinterpret_cast<float4*>(p.y), p.hidden / 4, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(const rmsnorm::RmsNorm& p) {
  return {.read = 8.0 * p.hidden, .written = 4.0 * p.hidden};  // x and weight once; y once
}

/// Three additions in a vector, a thread's columns one by one at most, then two warps' shuffles.
template <int kThreads>
int sum_depth(const rmsnorm::RmsNorm& p) {
  return 3 + (p.hidden - 1) / kThreads + 1 + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::RmsNorm> lesson{{
    .slug = "06_float4",
    .title = "float4",
    .idea = "Vectors of 16 bytes: a quarter of the loads, each four times the size",
    .regime = "decode",
    .launch = launch<256, 4>,
    .unsupported = unsupported<256, 4>,
    .traffic = traffic,
    .sum_depth = sum_depth<256>,
}};

// [variant]
/// Three variants, to find out what a wider block does to this kernel.
template <int kUnroll>
rmsnorm::Lesson<rmsnorm::RmsNorm> variant(const char* slug, const char* idea) {
  return {
      .slug = slug,
      .title = "float4, 512 threads",
      .idea = idea,
      .regime = "prefill",
      .launch = launch<512, kUnroll>,
      .unsupported = unsupported<512, kUnroll>,
      .traffic = traffic,
      .sum_depth = sum_depth<512>,
  };
}
const rmsnorm::Registration<rmsnorm::RmsNorm> by_4(
    variant<4>("06_float4/512", "As 06_float4, with 512 threads"));
const rmsnorm::Registration<rmsnorm::RmsNorm> by_2(
    variant<2>("06_float4/512_by_2", "The same, two loads at a time"));
const rmsnorm::Registration<rmsnorm::RmsNorm> by_1(
    variant<1>("06_float4/512_by_1", "The same, one load at a time"));
// [variant]

}  // namespace
