#pragma once
// A kernel in a header.

constexpr int kBins = 16;

/// Counts the numbers of x by their last digit in base 16: each block its own, then all together.
__global__ void count(const int* x, int* bins, int n, bool atomically) {
  __shared__ int own[kBins];
  if (threadIdx.x < kBins) own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    atomicAdd(&own[x[i] % kBins], 1);
  }
  __syncthreads();
  if (threadIdx.x >= kBins) return;
  if (atomically) {
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
  } else {
    bins[threadIdx.x] += own[threadIdx.x];
  }
}
