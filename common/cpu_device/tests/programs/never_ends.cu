// A loop that halves 0.
// Says: a loop that never ends at never_ends.cu:6

__global__ void count_bits(int* y, int n) {
  int bits = 0;
  for (int rest = n; rest >= 0; rest /= 2) ++bits;
  *y = bits;
}

int main() {
  int* y = nullptr;
  cudaMalloc(&y, sizeof(int));
  count_bits<<<1, 1>>>(y, 100);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
}
