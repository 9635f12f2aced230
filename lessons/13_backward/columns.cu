// The last additions on the way to dweight, in an order that never changes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "lessons/13_backward/other_kernels.hpp"

namespace {

using rmsnorm::Dtype;

// [add_shares]
/// Adds up the blocks' shares and rounds once. A warp has every 32nd share of 32 columns, whichever
/// block was first to store one.
__global__ void add_shares(
    const float* __restrict__ shares,  // (blocks, hidden)  read once
    void* __restrict__ dweight,        // (hidden)          written once
    int blocks, int hidden, Dtype dtype) {
  const int col = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
#pragma unroll 8
  for (int i = threadIdx.y; i < blocks; i += 32) {
    if (col < hidden) sum += shares[i * std::int64_t{hidden} + col];
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
// [add_shares]

}  // namespace

cudaError_t rmsnorm::backward::launch_add_shares(
    const BackwardProblem& p, const Shape& shape, cudaStream_t stream) {
  if (p.dweight == nullptr) return cudaSuccess;
  add_shares<<<divide_up(p.hidden, 32), dim3(32, 32), 0, stream>>>(
      shares_of(p), p.dweight, shape.blocks, p.hidden, p.weight_dtype);
  return cudaGetLastError();
}
