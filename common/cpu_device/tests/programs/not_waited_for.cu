// A launch that nobody waits for makes a mistake.
// Says: not_waited_for.cu:5: thread 31 writes 4 bytes, 1 element past the end of y (31 elements)

__global__ void fill(int* y) {
  y[threadIdx.x] = 1;
}

int main() {
  int* y = nullptr;
  cudaMalloc(&y, 31 * sizeof(int));
  fill<<<1, 32>>>(y);
}
