// A histogram that is read before it is there.
// Says: copy_not_waited_for.cu:22: the host's code reads memory that a copy
#include <cstdio>
#include <vector>

#include "bins.cuh"

int main() {
  constexpr int kSize = 1000;
  std::vector<int> numbers(kSize);
  for (int i = 0; i < kSize; ++i) numbers[i] = i;
  int* x = nullptr;
  int* bins = nullptr;
  cudaMalloc(&x, kSize * sizeof(int));
  cudaMalloc(&bins, kBins * sizeof(int));
  cudaMemcpy(x, numbers.data(), kSize * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(bins, 0, kBins * sizeof(int));
  count<<<4, 64>>>(x, bins, kSize, true);
  int counts[kBins];
  cudaMemcpyAsync(counts, bins, sizeof counts, cudaMemcpyDeviceToHost, nullptr);
  int sum = 0;
  for (const int number : counts) sum += number;
  std::printf("%d\n", sum);
  cudaFree(x);
  cudaFree(bins);
  return cudaGetLastError() == cudaSuccess && sum == kSize ? 0 : 3;
}
