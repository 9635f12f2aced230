// All blocks wait for all, and there are more of them than fit on the GPU.
// Says: spin_barrier.cu:10: thread 0 waits here for other blocks, and 3 of 7 have not begun

__device__ unsigned arrived;

__global__ void meet() {
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(&arrived, 1u);
    while (atomicAdd(&arrived, 0u) < gridDim.x) {
    }
  }
  __syncthreads();
}

int main() {
  meet<<<7, 1024>>>();
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 3;
}
