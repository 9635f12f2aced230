#pragma once
// A kernel in a header, and a program around it.
#include <cstdio>
#include <vector>

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

/// Counts numbers: the status of the program.
inline int run(bool atomically, bool waits) {
  constexpr int kSize = 1000;
  std::vector<int> numbers(kSize);
  for (int i = 0; i < kSize; ++i) numbers[i] = i;
  int* x = nullptr;
  int* bins = nullptr;
  cudaMalloc(&x, kSize * sizeof(int));
  cudaMalloc(&bins, kBins * sizeof(int));
  cudaMemcpy(x, numbers.data(), kSize * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(bins, 0, kBins * sizeof(int));
  count<<<4, 64>>>(x, bins, kSize, atomically);
  int* counts = nullptr;
  cudaMallocHost(&counts, kBins * sizeof(int));
  cudaMemcpyAsync(counts, bins, kBins * sizeof(int), cudaMemcpyDeviceToHost, nullptr);
  if (waits) cudaDeviceSynchronize();
  int sum = 0;
  for (int i = 0; i < kBins; ++i) sum += counts[i];
  std::printf("%d\n", sum);
  cudaFreeHost(counts);
  cudaFree(x);
  cudaFree(bins);
  return cudaGetLastError() == cudaSuccess && sum == kSize ? 0 : 3;
}
