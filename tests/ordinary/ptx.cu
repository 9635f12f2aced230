/// \file
/// Inline PTX.

#include "tests/ordinary/block_sum.cuh"
#include "tests/ordinary/cases.hpp"

namespace tests {
namespace {

constexpr int kHidden = Rows::kHidden;

__device__ float4 load_once(const float4* from) {
  float4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(from));
  return value;
}

__device__ void store_once(float4* to, float4 value) {
  asm volatile(
      "st.global.cs.v2.f32 [%0], {%1, %2};\n\t"
      "st.global.cs.v2.f32 [%0 + 8], {%3, %4};" ::"l"(to),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
      : "memory");
}

__global__ void hints(const float* x, float* y) {
  const float4 value =
      load_once(reinterpret_cast<const float4*>(x + blockIdx.x * kHidden) + threadIdx.x);
  float sum = value.x * value.x + value.y * value.y + value.z * value.z + value.w * value.w;
  unsigned lane = 0, row = 0;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%ctaid.x;" : "=r"(row));
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  __shared__ float partial[2];
  if (lane == 0) partial[threadIdx.x / 32] = sum;
  asm volatile("bar.sync 0;" ::: "memory");
  float rstd = (partial[0] + partial[1]) / kHidden + 1e-5f;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(rstd) : "f"(rstd));
  const float4 result = {value.x * rstd, value.y * rstd, value.z * rstd, value.w * rstd};
  store_once(reinterpret_cast<float4*>(y + row * kHidden) + threadIdx.x, result);
}

#define COPY_ASYNC(to, from)                                    \
  asm volatile(                                                 \
      "cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(      \
          static_cast<unsigned>(__cvta_generic_to_shared(to))), \
      "l"(from))

/// Two halves of a block, each with a barrier of its own.
__global__ void copies(const float* x, float* y) {
  __shared__ float4 row[kHidden / 4];
  __shared__ float partial[2][4];
  const auto* const from = reinterpret_cast<const float4*>(x + blockIdx.x * kHidden);
  if (threadIdx.x < kHidden / 4) COPY_ASYNC(&row[threadIdx.x], &from[threadIdx.x]);
  asm volatile("cp.async.commit_group;\n" ::: "memory");
  asm volatile("cp.async.wait_group %0;\n" ::"n"(0) : "memory");
  __syncthreads();
  const unsigned half = threadIdx.x / 128;  // both add up the whole row
  const unsigned t = threadIdx.x % 128;
  const float* const values = reinterpret_cast<const float*>(row);
  float sum = values[t] * values[t] + values[t + 128] * values[t + 128];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (t % 32 == 0) partial[half][t / 32] = sum;
  asm volatile("bar.sync %0, 128;" ::"r"(half + 1) : "memory");
  sum = partial[half][0] + partial[half][1] + partial[half][2] + partial[half][3];
  y[blockIdx.x * kHidden + threadIdx.x] = values[threadIdx.x] * rstd_of(sum);
}

/// One warp brings the row, and does not wait for those who use it. Its loads have a policy.
__global__ void producer(const float* x, float* y) {
  __shared__ float row[kHidden];
  __shared__ float partial[8];
  if (threadIdx.x >= kHidden) {
    unsigned long long policy = 0;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    for (unsigned i = threadIdx.x - kHidden; i < kHidden; i += 32) {
      asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;"
                   : "=f"(row[i])
                   : "l"(x + blockIdx.x * kHidden + i), "l"(policy));
    }
    __threadfence_block();
    asm volatile("bar.arrive 1, 288;" ::: "memory");
    return;
  }
  asm volatile("bar.sync 1, 288;" ::: "memory");
  const float value = row[threadIdx.x];
  float sum = value * value;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  asm volatile("bar.sync 2, 256;" ::: "memory");
  sum = 0;
  for (const float part : partial) sum += part;
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(sum);
}

__device__ void meet(int number) {
  asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
}

/// Each half of the block calls one function from a branch of its own.
__global__ void halves_meet(const float* x, float* y) {
  __shared__ float partial[8];
  const float value = x[blockIdx.x * kHidden + threadIdx.x];
  float sum = value * value;
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  if (threadIdx.x < 128) {
    meet(1);
    sum = partial[0] + partial[1] + partial[2] + partial[3];
  } else {
    meet(2);
    sum = partial[4] + partial[5] + partial[6] + partial[7];
  }
  __syncthreads();
  if (threadIdx.x % 128 == 0) partial[threadIdx.x / 128] = sum;
  __syncthreads();
  y[blockIdx.x * kHidden + threadIdx.x] = value * rstd_of(partial[0] + partial[1]);
}

}  // namespace

std::vector<Ordinary> ptx_kernels() {
  return {
      {"ld and st with hints, and special registers", launch<hints, kHidden / 4>},
      {"cp.async, and named barriers", launch<copies>},
      {"two halves at named barriers of one function", launch<halves_meet>},
      {"bar.arrive, and a cache policy", launch<producer, kHidden + 32>},
  };
}

}  // namespace tests
