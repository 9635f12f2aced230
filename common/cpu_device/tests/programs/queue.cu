// Blocks hand values to each other through a queue in global memory, and one has no fence.
// Says: queue.cu:21: a race: this block reads queue[0] here, another writes it at queue.cu:12
#include <cstdio>

__global__ void produce_and_consume(int* queue, unsigned* ready, int* sums) {
  if (threadIdx.x != 0) return;
  const unsigned consumers = gridDim.x / 2;
  const unsigned pair = blockIdx.x % consumers;
  if (blockIdx.x < consumers) {
    for (int i = 0; i < 8; ++i) {
      const int value = static_cast<int>(pair) * 100 + i;
      queue[pair * 8 + i] = value;
      if (pair > 0) __threadfence();  // the first one forgets it
      atomicAdd(&ready[pair], 1u);
    }
  } else {
    for (unsigned i = 0; i < 8; ++i) {
      while (atomicAdd(&ready[pair], 0u) <= i) {
      }
      __threadfence();
      sums[pair] += queue[pair * 8 + i];
    }
  }
}

int main() {
  int* queue = nullptr;
  unsigned* ready = nullptr;
  int* sums = nullptr;
  cudaMalloc(&queue, 2 * 8 * sizeof(int));
  cudaMalloc(&ready, 2 * sizeof(unsigned));
  cudaMalloc(&sums, 2 * sizeof(int));
  cudaMemset(ready, 0, 2 * sizeof(unsigned));
  cudaMemset(sums, 0, 2 * sizeof(int));
  produce_and_consume<<<4, 32>>>(queue, ready, sums);
  int of_pairs[2];
  cudaMemcpy(of_pairs, sums, sizeof of_pairs, cudaMemcpyDeviceToHost);
  std::printf("%d %d\n", of_pairs[0], of_pairs[1]);
  return 0;
}
