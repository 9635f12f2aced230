/// \file
/// Loads by a table of addresses: whatever the pattern, the kernel is the same.

#include <cuda_runtime.h>

#include "tests/access_patterns.hpp"

namespace tests {
namespace {

__device__ float first(float value) {
  return value;
}
__device__ float first(float2 value) {
  return value.x;
}
__device__ float first(float4 value) {
  return value.x;
}

template <class T>
__global__ void load_global(const float* x, const int* at, float* y) {
  const T value = *reinterpret_cast<const T*>(x + at[threadIdx.x]);
  y[threadIdx.x] = first(value);
}

template <class T>
__global__ void load_shared(int floats, const int* at, float* y) {
  extern __shared__ float staged[];
  for (int i = threadIdx.x; i < floats; i += kLanes) staged[i] = static_cast<float>(i);
  __syncthreads();
  const T value = *reinterpret_cast<const T*>(staged + at[threadIdx.x]);
  y[threadIdx.x] = first(value);
}

template <class T>
void start_shared(int floats, const int* at, float* y) {
  const int bytes = floats * static_cast<int>(sizeof(float));
  cudaFuncSetAttribute(load_shared<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  load_shared<T><<<1, kLanes, bytes>>>(floats, at, y);
}

}  // namespace

void load_from_global(int bytes, const float* x, const int* at, float* y) {
  if (bytes == 4) load_global<float><<<1, kLanes>>>(x, at, y);
  if (bytes == 8) load_global<float2><<<1, kLanes>>>(x, at, y);
  if (bytes == 16) load_global<float4><<<1, kLanes>>>(x, at, y);
}

void load_from_shared(int bytes, int floats, const int* at, float* y) {
  if (bytes == 4) start_shared<float>(floats, at, y);
  if (bytes == 8) start_shared<float2>(floats, at, y);
  if (bytes == 16) start_shared<float4>(floats, at, y);
}

}  // namespace tests
