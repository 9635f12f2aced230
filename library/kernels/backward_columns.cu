// The last additions on the way to dweight, in an order that never changes.
#include <cstdint>

#include "library/kernels/backward_kernels.hpp"
#include "library/kernels/launch.hpp"
#include "library/kernels/row.cuh"
#include "library/kernels/types.hpp"

namespace rmsnorm::kernels {
namespace {

/// Adds up the blocks' partial sums and rounds once. A warp has every 32nd sum of 32 columns,
/// whichever block was first to store one.
__global__ void add_sums(
    const float* __restrict__ sums,  // (blocks, hidden)  read once
    void* __restrict__ dweight,      // (hidden)          written once
    int blocks, int hidden, Dtype dtype) {
  const int col = blockIdx.x * 32 + threadIdx.x;
  wait_for_inputs();
  float sum = 0;
#pragma unroll 8
  for (int i = threadIdx.y; i < blocks; i += 32) {
    if (col < hidden) sum += sums[i * std::int64_t{hidden} + col];
  }
  __shared__ float of_warp[32][32];
  of_warp[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();  // every warp's sums are in of_warp
  if (threadIdx.y > 0 || col >= hidden) return;
  for (int warp = 1; warp < 32; ++warp) sum += of_warp[warp][threadIdx.x];
  if (dtype == Dtype::fp32) static_cast<float*>(dweight)[col] = sum;
  if (dtype == Dtype::fp16) static_cast<__half*>(dweight)[col] = __half(sum);
  if (dtype == Dtype::bf16) static_cast<__nv_bfloat16*>(dweight)[col] = __nv_bfloat16(sum);
}

}  // namespace

cudaError_t launch_add_sums(
    const float* sums, int blocks, int columns, void* dweight, Dtype dtype, cudaStream_t stream) {
  if (dweight == nullptr) return cudaSuccess;
  return launch_overlapping(
      add_sums, {(columns + 31) / 32}, dim3(32, 32), 0, stream, sums, dweight, blocks, columns,
      dtype);
}

}  // namespace rmsnorm::kernels
