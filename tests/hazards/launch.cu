#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cub/cub.cuh>

#include "tests/hazards/run_hazard.hpp"

namespace tests {
namespace {

__global__ void fill(float* y) {
  y[blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x] = 1;
}

__global__ void large_static(float* y) {
  __shared__ float memory[10000];
  memory[threadIdx.x] = 1;
  y[threadIdx.x] = memory[threadIdx.x];
}

__global__ void too_large_static(float* y) {
  __shared__ float small[10];
  __shared__ float memory[13000];  // <-- too large
  small[threadIdx.x % 10] = 1;
  memory[threadIdx.x] = 1;
  y[threadIdx.x] = memory[threadIdx.x] + small[0];
}

template <class Scalar, int kElements>
__device__ Scalar with_scratch(Scalar value) {
  __shared__ Scalar scratch[kElements];
  scratch[threadIdx.x] = value;
  return scratch[threadIdx.x] + 1;
}

template <class Scalar, int kElements>
__global__ void has_static(const float* x, float* y) {
  __shared__ int turns[7];
  turns[0] = 1;
  y[threadIdx.x] = static_cast<float>(with_scratch<Scalar, kElements>(1)) + turns[0] + x[0];
}

__global__ void has_scratch_first(float* y) {
  y[threadIdx.x] = with_scratch<float, 100>(1);
}

__global__ void strided(const float* x, float* y, int stride, int start) {
  y[threadIdx.x] = x[start + stride * static_cast<int>(threadIdx.x)];
}

__global__ void strided_shared(float* y, int stride) {
  extern __shared__ float row[];
  row[stride * static_cast<int>(threadIdx.x)] = 1;
  __syncthreads();  // or the compiler would know what the load gives
  y[threadIdx.x] = row[stride * static_cast<int>(threadIdx.x)];
}

__global__ void halves(const __nv_bfloat16* x, __half* y) {
  y[threadIdx.x] = __float2half(__bfloat162float(x[threadIdx.x]));
}

__global__ void half_pairs(const __nv_bfloat162* x, __half2* y) {
  y[threadIdx.x] = __float22half2_rn(__bfloat1622float2(x[threadIdx.x]));
}

__global__ void vectors(const float* x, float* y) {
  __shared__ float4 staged[64];
  staged[threadIdx.x] = reinterpret_cast<const float4*>(x)[threadIdx.x];
  reinterpret_cast<float4*>(y)[threadIdx.x] = staged[threadIdx.x];
}

__global__ void barriers(float* y) {
  float value = 1;
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
  for (int i = 0; i < 3; ++i) __syncthreads();
  y[threadIdx.x] = value;
}

__global__ void triggers(float* y, int early, int late) {
  const int t = threadIdx.x;
  if (t < early) cudaTriggerProgrammaticLaunchCompletion();
  y[t] = 1;
  if (t >= 96 - late) cudaTriggerProgrammaticLaunchCompletion();
}

__global__ void warp_reduce(const float* x, float* y) {
  using Reduce = cub::WarpReduce<float>;
  __shared__ typename Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) y[0] = sum;
}

__global__ void block_reduce(const float* x, float* y) {
  using Reduce = cub::BlockReduce<float, 96>;
  __shared__ typename Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) y[0] = sum;
}

}  // namespace

cudaError_t launch_fill(dim3 grid, dim3 block, std::size_t dynamic, float* y, cudaStream_t stream) {
  fill<<<grid, block, dynamic, stream>>>(y);
  return cudaGetLastError();
}

cudaError_t ask_for_dynamic(int dynamic) {
  const cudaError_t asked =
      cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic);
  cudaGetLastError();
  return asked;
}

cudaError_t forget_dynamic() {
  return ask_for_dynamic(0);
}

cudaError_t launch_large_static(std::size_t dynamic, float* y) {
  large_static<<<1, 32, dynamic>>>(y);
  return cudaGetLastError();
}

cudaError_t launch_too_large_static(float* y) {
  too_large_static<<<1, 40>>>(y);
  return cudaGetLastError();
}

std::size_t static_bytes_of_none() {
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, strided);
  return attributes.sharedSizeBytes;
}

std::size_t static_bytes_of_template() {
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, has_scratch_first);
  return attributes.sharedSizeBytes;
}

std::size_t static_bytes_of_other_template() {
  cudaFuncAttributes attributes;
  cudaFuncGetAttributes(&attributes, has_static<double, 50>);
  return attributes.sharedSizeBytes;
}

void launch_strided(const float* x, float* y, int threads, int stride, int start) {
  strided<<<1, threads>>>(x, y, stride, start);
}

void launch_strided_shared(float* y, int threads, int stride) {
  strided_shared<<<1, threads, threads * stride * sizeof(float)>>>(y, stride);
}

void launch_vectors(const float* x, float* y, int threads) {
  vectors<<<1, threads>>>(x, y);
}

void launch_halves(const float* x, float* y, int width) {
  const auto* from = reinterpret_cast<const __nv_bfloat16*>(x);
  auto* to = reinterpret_cast<__half*>(y);
  if (width == 1) halves<<<1, 32>>>(from, to);
  if (width == 2) {
    half_pairs<<<1, 32>>>(
        reinterpret_cast<const __nv_bfloat162*>(from), reinterpret_cast<__half2*>(to));
  }
}

void launch_barriers(float* y, int threads) {
  barriers<<<2, threads>>>(y);
}

void launch_triggers(float* y, int early, int late) {
  triggers<<<2, 96>>>(y, early, late);
}

void launch_warp_reduce(const float* x, float* y) {
  warp_reduce<<<1, 32>>>(x, y);
}

void launch_block_reduce(const float* x, float* y) {
  block_reduce<<<1, 96>>>(x, y);
}

namespace {

template <class Vector>
__global__ void shared_vectors(float* y, int sharing) {
  __shared__ Vector row[32];
  row[threadIdx.x] = Vector();
  __syncthreads();
  const Vector v = row[threadIdx.x / sharing];
  y[threadIdx.x] = v.x;
}

__global__ void long_loop(const float* x, float* y) {
  float sum = 0;
  if (threadIdx.x == 0) sum += x[4095];
  for (int i = 0; i < 6000; ++i) sum += x[i * 64 % 4096 + threadIdx.x];
  y[threadIdx.x] = sum;
}

extern __shared__ float at_file_scope[];

__global__ void file_scope(float* y) {
  at_file_scope[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  y[threadIdx.x] = at_file_scope[threadIdx.x];
}

__global__ void with_workspace(const float* x, float* workspace, float* y) {
  workspace[0] = x[0];
  y[0] = workspace[0] + 1;
}

__global__ void set(float* y, float value) {
  y[0] = value;
}

__global__ void increment(float* y) {
  y[0] = y[0] + 1;
}

__global__ void shuffle_xor(float* y, int distance) {
  y[threadIdx.x] = __shfl_xor_sync(0xffffffff, static_cast<float>(threadIdx.x), distance);
}

__global__ void half_warp_reduce(const float* x, float* y) {
  using Reduce = cub::WarpReduce<float, 16>;
  __shared__ Reduce::TempStorage storage;
  if (threadIdx.x < 16) {
    const float sum = Reduce(storage).Sum(x[threadIdx.x]);
    if (threadIdx.x == 0) y[0] = sum;
  }
}

}  // namespace

void launch_shared_vectors(float* y, int bytes, int sharing) {
  if (bytes == 8) shared_vectors<float2><<<1, 32>>>(y, sharing);
  if (bytes == 16) shared_vectors<float4><<<1, 32>>>(y, sharing);
}

void launch_long_loop(const float* x, float* y) {
  long_loop<<<1, 64>>>(x, y);
}

void launch_file_scope(float* y, int threads) {
  file_scope<<<1, threads, threads * sizeof(float)>>>(y);
}

void launch_with_workspace(const float* x, float* workspace, float* y) {
  with_workspace<<<1, 1>>>(x, workspace, y);
}

void launch_set(float* y, float value, cudaStream_t stream) {
  set<<<1, 1, 0, stream>>>(y, value);
}

void launch_increment(float* y, cudaStream_t stream) {
  increment<<<1, 1, 0, stream>>>(y);
}

void launch_shuffle_xor(float* y, int distance) {
  shuffle_xor<<<1, 32>>>(y, distance);
}

void launch_half_warp_reduce(const float* x, float* y) {
  half_warp_reduce<<<1, 32>>>(x, y);
}

}  // namespace tests
