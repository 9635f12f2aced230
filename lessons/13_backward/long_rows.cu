// Rows that no block can keep in its registers: their means, before their parts are worked on.
#include <cstdint>

#include "lessons/13_backward/other_kernels.hpp"
#include "lessons/13_backward/row.cuh"
#include "lessons/13_backward/shape.hpp"

namespace {

using namespace rmsnorm::backward;
using rmsnorm::BackwardProblem;
using rmsnorm::Dtype;

/// Sum over the kMostThreads threads of a block, which thread 0 gets.
__device__ float block_sum(float value) {
  __shared__ float partial[kMostThreads / 32];
  const int lane = threadIdx.x % 32;
  value = group_sum(value, 32);
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();  // every warp's sum is in partial[]
  return group_sum(lane < kMostThreads / 32 ? partial[lane] : 0, 32);
}

/// The mean of g * n of every row. Each has a block.
template <class T, int kSize>
__global__ void row_means(
    const Vector<T, kSize>* __restrict__ x,   // (rows, hidden)  read once, here
    const Vector<T, kSize>* __restrict__ dy,  // (rows, hidden)  read once, here
    const float* __restrict__ rstd,           // (rows)
    const void* __restrict__ weight,          // (hidden)        read once a row
    float* __restrict__ means,                // (rows)          written once
    int hidden, Dtype weight_dtype, float bias) {
  const int vectors = hidden / kSize;
  x += blockIdx.x * std::int64_t{vectors};
  dy += blockIdx.x * std::int64_t{vectors};
  const float r = rstd[blockIdx.x];
  float sum = 0;
#pragma unroll 2
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    auto v = x[i];
    auto d = dy[i];
    float factor[kSize];
    load_factors<T>(factor, weight, weight_dtype, i, bias);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      sum += float(element<T>(d, e)) * factor[e] * (float(element<T>(v, e)) * r);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) means[blockIdx.x] = sum / hidden;
}

template <class T, int kSize>
cudaError_t launch_for(const BackwardProblem& p, const Shape& shape, cudaStream_t stream) {
  row_means<T, kSize><<<p.rows, kMostThreads, 0, stream>>>(
      static_cast<const Vector<T, kSize>*>(p.x), static_cast<const Vector<T, kSize>*>(p.dy), p.rstd,
      p.weight, means_of(p, shape), p.hidden, p.weight_dtype, p.weight_bias);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_as(const BackwardProblem& p, const Shape& shape, cudaStream_t stream) {
  return shape.size == 1 ? launch_for<T, 1>(p, shape, stream)
                         : launch_for<T, 16 / sizeof(T)>(p, shape, stream);
}

}  // namespace

cudaError_t rmsnorm::backward::launch_row_means(
    const BackwardProblem& p, const Shape& shape, cudaStream_t stream) {
  if (shape.parts == 1 || p.rows == 0) return cudaSuccess;
  if (p.dtype == Dtype::fp32) return launch_as<float>(p, shape, stream);
  if (p.dtype == Dtype::fp16) return launch_as<__half>(p, shape, stream);
  return launch_as<__nv_bfloat16>(p, shape, stream);
}
