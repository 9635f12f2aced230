// The program itself sees that something is wrong, and the device nothing.
// Says: nothing, exit 3

__global__ void twice(int* y) {
  *y = 3 * *y;
}

int main() {
  int number = 7;
  int* y = nullptr;
  cudaMalloc(&y, sizeof(int));
  cudaMemcpy(y, &number, sizeof(int), cudaMemcpyHostToDevice);
  twice<<<1, 1>>>(y);
  cudaMemcpy(&number, y, sizeof(int), cudaMemcpyDeviceToHost);
  return number == 14 ? 0 : 3;
}
