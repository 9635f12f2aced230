// The forward pass of training: RMSNorm that also stores rstd, which the backward pass needs.
#include <cstdint>
#include <cuda/annotated_ptr>

#include "lessons/13_backward/backward.hpp"
#include "lessons/13_backward/row.cuh"

namespace {

using namespace rmsnorm::backward;
using rmsnorm::Dtype;
using rmsnorm::TypedProblem;

/// Sum over the blockDim.x threads of a row: lanes of a warp, or a block. Every thread gets it.
__device__ float row_sum(float value) {
  if (blockDim.x <= 32) return group_sum(value, blockDim.x);  // no barrier
  __shared__ float partial[32];
  const int lane = threadIdx.x % 32;
  value = group_sum(value, 32);
  if (lane == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();  // every warp's sum is in partial[]
  return group_sum(lane < blockDim.x / 32 ? partial[lane] : 0, 32);
}

// [kernel]
/// A block has blockDim.y rows. The registers keep the first kVectors vectors
/// of each thread; the others, of longer rows, are loaded again.
template <class T, int kSize, int kVectors>
__global__ void __launch_bounds__(kMostThreads) rms_norm_forward(
    const Vector<T, kSize>* x,         // (rows, hidden)  read once
    const void* __restrict__ weight,   // (hidden)        read once a row
    Vector<T, kSize>* __restrict__ y,  // (rows, hidden)  written once
    float* __restrict__ rstd,          // (rows)          written once
    int rows, int hidden, Dtype type, float eps, float bias) {
  const int vectors = hidden / kSize;
  const std::int64_t first = blockIdx.x * std::int64_t{blockDim.y};
  const std::int64_t row = first + threadIdx.y;
  const int end = row < rows ? vectors : 0;  // 0: a place to spare

  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors, keep);
  y += row * vectors;

  Vector<T, kSize> kept[kVectors];
  float sum = 0;
  const auto add = [&](Vector<T, kSize>& v) {
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      sum += float(element<T>(v, e)) * float(element<T>(v, e));
    }
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    kept[k] = i < end ? x[i] : Vector<T, kSize>{};
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) add(kept[k]);
  const int longer = threadIdx.x + kVectors * blockDim.x;
  for (int i = longer; i < end; i += blockDim.x) {
    auto v = x[i];
    add(v);
  }
  const float r = rsqrtf(row_sum(sum) / hidden + eps);
  if (threadIdx.x == 0 && row < rows) rstd[row] = r;

  const auto write = [&](Vector<T, kSize>& v, int i) {
    float factor[kSize];
    load_factors<T>(factor, weight, type, i, bias);
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      element<T>(v, e) = T(float(element<T>(v, e)) * r * factor[e]);
    }
    y[i] = v;
  };
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * blockDim.x;
    if (i < end) write(kept[k], i);
  }
  for (int i = longer; i < end; i += blockDim.x) {
    auto v = x[i];
    write(v, i);
  }
}
// [kernel]

template <class T, int kSize>
cudaError_t launch_for(const TypedProblem& p, float* rstd, cudaStream_t stream) {
  constexpr int kVectors = kSize == 1 ? 8 : 4;
  const int vectors = p.hidden / kSize;
  int threads = 8;  // two vectors for each, or more
  while (threads < kMostThreads && 2 * threads < vectors) threads *= 2;
  const int places = threads <= 32 ? 128 / threads : 1;
  const int blocks = static_cast<int>(divide_up(p.rows, places));
  rms_norm_forward<T, kSize, kVectors><<<blocks, dim3(threads, places), 0, stream>>>(
      static_cast<const Vector<T, kSize>*>(p.x), p.weight, static_cast<Vector<T, kSize>*>(p.y),
      rstd, p.rows, p.hidden, p.weight_dtype, p.eps, p.weight_bias);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_as(const TypedProblem& p, float* rstd, cudaStream_t stream) {
  auto addresses = static_cast<std::uintptr_t>(p.hidden) * sizeof(T);
  for (const void* data : {p.x, p.weight, static_cast<const void*>(p.y)}) {
    addresses |= reinterpret_cast<std::uintptr_t>(data);
  }
  return addresses % 16 == 0 ? launch_for<T, 16 / sizeof(T)>(p, rstd, stream)
                             : launch_for<T, 1>(p, rstd, stream);
}

}  // namespace

cudaError_t rmsnorm::backward::forward(const TypedProblem& p, float* rstd, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  if (p.dtype == Dtype::fp32) return launch_as<float>(p, rstd, stream);
  if (p.dtype == Dtype::fp16) return launch_as<__half>(p, rstd, stream);
  return launch_as<__nv_bfloat16>(p, rstd, stream);
}
