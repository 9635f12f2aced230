// Blocks agree on the largest number, but behind the look of one, another may have stored its own.
// Its exit status is 1 if that happens, which it does not in the usual order.
#include <cstdio>

__global__ void find_largest(const int* numbers, int* largest) {
  if (threadIdx.x != 0) return;
  const int mine = numbers[blockIdx.x];
  if (mine > atomicAdd(largest, 0)) {
    atomicExch(largest, mine);
  }
}

int main() {
  const int numbers[] = {5, 9, 2, 7};
  int* on_device = nullptr;
  int* largest = nullptr;
  cudaMalloc(&on_device, sizeof numbers);
  cudaMalloc(&largest, sizeof(int));
  cudaMemcpy(on_device, numbers, sizeof numbers, cudaMemcpyHostToDevice);
  cudaMemset(largest, 0, sizeof(int));
  find_largest<<<4, 32>>>(on_device, largest);
  int result = 0;
  cudaMemcpy(&result, largest, sizeof result, cudaMemcpyDeviceToHost);
  std::printf("%d\n", result);
  cudaFree(on_device);
  cudaFree(largest);
  return result == 9 ? 0 : 1;
}
