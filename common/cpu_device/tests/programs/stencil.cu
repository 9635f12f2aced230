// A stencil in place: a barrier is missing between the reads of a step and its writes.
// Says: stencil.cu:13: a race: thread 1 reads row[1] here, thread 0 writes it at stencil.cu:14
#include <cstdio>

constexpr int kThreads = 64;

__global__ void smooth(float* y, int steps) {
  __shared__ float row[kThreads + 2];
  const int t = threadIdx.x + 1;
  row[t] = y[t - 1];
  if (t == 1) row[0] = row[kThreads + 1] = 0;
  for (int step = 0; step < steps; ++step) {
    const float mean = (row[t - 1] + row[t] + row[t + 1]) / 3;
    row[t] = mean;
    __syncthreads();
  }
  y[t - 1] = row[t];
}

int main() {
  float* y = nullptr;
  cudaMalloc(&y, kThreads * sizeof(float));
  cudaMemset(y, 0, kThreads * sizeof(float));
  smooth<<<1, kThreads>>>(y, 4);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
}
