// Exercise 10 - Half precision
// Given      the kernel for three types, one column at a time: 2 bytes in bf16 and fp16.
// Goal       every request to global memory touches 16 sectors, in bf16.
// Within     x crosses global memory once, at most 1 barrier a row, the traffic that this file
//            predicts.
// Check it   ./rmsnorm exercise 10
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cuda/annotated_ptr>
#include <numeric>

#include "common/contract/lesson.hpp"

namespace {

/// Sum over the kThreads threads of a row. Every thread gets it.
template <int kThreads>
__device__ float row_sum(float value) {
  for (int distance = kThreads < 32 ? kThreads / 2 : 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  if constexpr (kThreads > 32) {
    __shared__ float partial[kThreads / 32];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's sum is in partial[]
    value = row_sum<32>(threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0);
  }
  return value;
}

/// Neighbouring elements that move together: 16 bytes if hidden allows it.
template <class T, int kWidth>
struct alignas(kWidth * sizeof(T)) Vector {
  T at[kWidth];
};

template <class T, class W, int kWidth, int kThreads, int kColumns, int kMost>
__global__ void __launch_bounds__(kMost) rms_norm_half_precision(
    const Vector<T, kWidth>* __restrict__ x,       // (rows, vectors)  once
    const Vector<W, kWidth>* __restrict__ weight,  // (vectors)  once a warp
    Vector<T, kWidth>* __restrict__ y,             // (rows, vectors)  once
    int rows, int vectors, float eps, float bias) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  y += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors, keep);
  // >>> your turn
  // The same tensors, column by column.
  const T* const x1 = reinterpret_cast<const T*>(x);
  const W* const weight1 = reinterpret_cast<const W*>(weight);
  T* const y1 = reinterpret_cast<T*>(y);
  const int hidden = kWidth * vectors;

  const int end = row < rows ? hidden : 0;  // a place behind them idles
  T v[kColumns] = {};                       // of x; zeros behind the row
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    const int col = threadIdx.x + k * kThreads;
    if (col < end) v[k] = x1[col];
    sum += static_cast<float>(v[k]) * static_cast<float>(v[k]);
  }
  const float rstd = rsqrtf(row_sum<kThreads>(sum) / hidden + eps);
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    const int col = threadIdx.x + k * kThreads;
    if (col >= end) continue;
    float value = static_cast<float>(v[k]) * rstd;
    if (weight != nullptr) value *= static_cast<float>(weight1[col]) + bias;
    y1[col] = static_cast<T>(value);
  }
  // <<<
}

/// Columns of a vector: 16 bytes, or as many as every row and tensor begins at a multiple of.
int width_of(const rmsnorm::TypedProblem& p) {
  const auto x_and_y = reinterpret_cast<std::size_t>(p.x) | reinterpret_cast<std::size_t>(p.y);
  const auto weight = reinterpret_cast<std::size_t>(p.weight) / bytes_of(p.weight_dtype);
  return std::gcd(x_and_y / bytes_of(p.dtype) | weight | p.hidden, 16 / bytes_of(p.dtype));
}

/// The threads of a row, and how many columns of it each keeps. The first with room is taken.
constexpr struct {
  int threads, columns;
} kShapes[] = {{8, 16}, {32, 16}, {128, 16}, {256, 16}, {1024, 16}, {1024, 48}};

std::string refuses(const rmsnorm::TypedProblem& p) {
  if (p.hidden <= kShapes[5].threads * kShapes[5].columns) return "";
  return "10_half_precision has room for 49152 columns: 1024 threads have 64 registers each";
}

/// Launches the kernel for these types and the problem's width and shape: one of 114.
template <class T, class W, int kWidth = 16 / sizeof(T), int kShape = 5>
cudaError_t launch_for(const rmsnorm::TypedProblem& p, cudaStream_t stream) {
  if constexpr (kWidth > 1)
    if (width_of(p) < kWidth) return launch_for<T, W, kWidth / 2, kShape>(p, stream);
  constexpr auto kFit = kShapes[kShape], kLess = kShapes[kShape > 0 ? kShape - 1 : 0];
  if constexpr (kShape > 0)
    if (p.hidden <= kLess.threads * kLess.columns)
      return launch_for<T, W, kWidth, kShape - 1>(p, stream);
  constexpr int kRows = kFit.threads <= 32 ? 128 / kFit.threads : 1, kMost = kRows * kFit.threads;
  const auto kernel = rms_norm_half_precision<T, W, kWidth, kFit.threads, kFit.columns, kMost>;
  kernel<<<(p.rows - 1) / kRows + 1, dim3(kFit.threads, kRows), 0, stream>>>(
      static_cast<const Vector<T, kWidth>*>(p.x), static_cast<const Vector<W, kWidth>*>(p.weight),
      static_cast<Vector<T, kWidth>*>(p.y), p.rows, p.hidden / kWidth, p.eps, p.weight_bias);
  return cudaGetLastError();
}

cudaError_t launch(const rmsnorm::TypedProblem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const bool of_fp32 = p.weight_dtype == rmsnorm::Dtype::fp32;
  if (p.dtype == rmsnorm::Dtype::fp32) return launch_for<float, float>(p, stream);
  if (p.dtype == rmsnorm::Dtype::fp16 && of_fp32) return launch_for<half, float>(p, stream);
  if (p.dtype == rmsnorm::Dtype::fp16) return launch_for<half, half>(p, stream);
  if (of_fp32) return launch_for<nv_bfloat16, float>(p, stream);
  return launch_for<nv_bfloat16, nv_bfloat16>(p, stream);
}

/// x and y once, the weight once a warp; a vector of 32 bytes is two loads, both of all sectors.
rmsnorm::Traffic traffic(const rmsnorm::TypedProblem& p) {
  const double row = bytes_of(p.dtype) * static_cast<double>(p.hidden);
  const double bytes = p.weight == nullptr ? 0 : bytes_of(p.weight_dtype);  // of a factor
  const int loads = bytes * width_of(p) == 32 ? 2 : 1, rows = p.hidden <= 128 ? 4 : 1;
  return {.read = row + bytes * p.hidden * loads / rows, .written = row};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
int sum_depth(const rmsnorm::TypedProblem& p) {
  return (p.hidden < 48 ? p.hidden : 48) + 5 + 5;
}

const rmsnorm::Registration lesson{{
    .slug = "10_half_precision",
    .title = "Half precision",
    .idea = "Tensors of bf16 or fp16, arithmetic in fp32, one rounding at the end",
    .regime = "prefill",
    .launch = launch,
    .refuses = refuses,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
