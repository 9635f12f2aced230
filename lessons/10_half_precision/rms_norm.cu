// Lesson 10 - Half precision
// Changed    bf16 or fp16 in memory, 8 columns a vector; the weight in that type, in fp32, or none.
// Unchanged  sums and products in fp32; the row in registers, early loads, the cache policy.
// Expect     half the bytes: faster in prefill, hardly in decode, where latency is the limit.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>
#include <type_traits>

#include "common/operations/rms_norm.hpp"

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

/// A vector of ones.
template <class T>
__device__ uint4 ones() {
  uint4 vector;
  for (int e = 0; e < 16 / int{sizeof(T)}; ++e) {
    reinterpret_cast<T*>(&vector)[e] = static_cast<T>(1.0f);
  }
  return vector;
}

/// Threads that an SM is to hold. Of its 65536 registers, each of 1536 can have 40, of 1280 48, of
/// 1024 64. Turing has no room for more than 1024.
template <class W, int kVectors>
constexpr int threads_on_sm() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if (kVectors <= 2) return sizeof(W) == 2 ? 1536 : 1280;
#endif
  return 1024;
}

// [kernel]
/// Elements of a vector: what 16 bytes hold.
template <class T>
constexpr int kSize = 16 / sizeof(T);

/// Element e of a vector. To widen it is its first use: a load that is to
/// be in flight with others must stay raw, a uint4, until all are out.
template <class T>
__device__ float element(const uint4& vector, int e) {
  if constexpr (std::is_same_v<T, nv_bfloat16>) {  // a float's upper half
    const unsigned two = reinterpret_cast<const unsigned*>(&vector)[e / 2];
    return __uint_as_float(e % 2 == 0 ? two << 16 : two & 0xffff0000);
  } else {
    return static_cast<float>(reinterpret_cast<const T*>(&vector)[e]);
  }
}

/// Threads of a block, if kThreads share a row.
template <int kThreads>
constexpr int kBlock = kThreads <= 32 ? 128 : kThreads;

template <class T, class W, int kThreads, int kVectors>
__global__ void __launch_bounds__(  // most threads, fewest blocks per SM
    kBlock<kThreads>, threads_on_sm<W, kVectors>() / kBlock<kThreads>)
    rms_norm_half_precision(
        const uint4* __restrict__ x,       // (rows, vectors)  read once
        const uint4* __restrict__ weight,  // (vectors of W)   once a warp
        uint4* __restrict__ y,             // (rows, vectors)  written once
        int rows, int vectors, float eps, float bias) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  y += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors, keep);
  const int end = row < rows ? vectors : 0;  // a place behind them idles
  const int end_of_weight = weight == nullptr ? 0 : end;
  constexpr int kParts = sizeof(W) / sizeof(T);    // of weight, for one of x
  constexpr bool kEarly = kVectors * kParts <= 4;  // else registers run short
  uint4 v[kVectors], w[kEarly ? kVectors : 1][kParts];
  const auto load_weight = [&](bool is_there, int i, uint4* to) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (is_there) to[part] = weight[i * kParts + part];
    }
  };
#pragma unroll
  for (auto& factors : w) {
#pragma unroll
    for (uint4& part : factors) part = ones<W>();  // where there is no weight
  }
  // The branch keeps these loads here. Without it, the compiler moves them
  // behind the first use of x, to save registers.
  if (kEarly && weight != nullptr) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int i = threadIdx.x + k * kThreads;
      load_weight(i < end, i, w[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    v[k] = i < end ? x[i] : make_uint4(0, 0, 0, 0);  // nothing to the sum
  }
  float sum = 0;
#pragma unroll
  for (const uint4& u : v) {
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      sum += element<T>(u, e) * element<T>(u, e);
    }
  }
  sum = row_sum<kThreads>(sum);
  const float rstd = rsqrtf(sum / (kSize<T> * vectors) + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    uint4* const factors = w[kEarly ? k : 0];
    if (!kEarly) load_weight(i < end_of_weight, i, factors);
    uint4 result;
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      const uint4& part = factors[e / kSize<W>];
      const float factor = element<W>(part, e % kSize<W>) + bias;
      const float value = element<T>(v[k], e) * rstd * factor;
      reinterpret_cast<T*>(&result)[e] = static_cast<T>(value);  // rounded
    }
    if (i < end) y[i] = result;
  }
}
// [kernel]

/// How rows are spread over threads, and the kernel for that.
struct Shape {
  int threads, rows, columns;  // of a row, of a block, of a thread
  void (*kernel)(const uint4*, const uint4*, uint4*, int, int, float, float);
};
template <class T, class W, int kThreads, int kColumns>
constexpr Shape kShape = {
    kThreads, kBlock<kThreads> / kThreads, kColumns,
    rms_norm_half_precision<T, W, kThreads, kColumns / kSize<T>>};

/// The first with room for a row is taken. A block of 1024 threads has 64 registers for each.
constexpr int kMaxColumns = 1024 * 48;
template <class T, class W>
constexpr Shape kShapes[] = {kShape<T, W, 8, 16>,   kShape<T, W, 16, 16>,  kShape<T, W, 32, 16>,
                             kShape<T, W, 32, 32>,  kShape<T, W, 128, 16>, kShape<T, W, 256, 16>,
                             kShape<T, W, 512, 16>, kShape<T, W, 512, 32>, kShape<T, W, 1024, 48>};

const Shape& shape_for(const rmsnorm::TypedRmsNorm& p) {
  const bool fp32_weight = p.weight_dtype == rmsnorm::Dtype::fp32;
  const Shape* shape = kShapes<float, float>;
  if (p.dtype == rmsnorm::Dtype::fp16) {
    shape = fp32_weight ? kShapes<half, float> : kShapes<half, half>;
  } else if (p.dtype == rmsnorm::Dtype::bf16) {
    shape = fp32_weight ? kShapes<nv_bfloat16, float> : kShapes<nv_bfloat16, nv_bfloat16>;
  }
  while (shape->threads * shape->columns < std::min(p.hidden, kMaxColumns)) ++shape;
  return *shape;
}

std::string unsupported(const rmsnorm::TypedRmsNorm& p) {
  const auto bytes = reinterpret_cast<std::uintptr_t>(p.x) |
                     reinterpret_cast<std::uintptr_t>(p.weight) |
                     reinterpret_cast<std::uintptr_t>(p.y) |
                     std::uintptr_t{p.hidden * std::size_t(bytes_of(p.dtype))};
  if (bytes % 16 != 0) {
    return "10_half_precision needs rows of whole 16-byte vectors at 16-byte addresses: "
           "a 16-byte load needs a 16-byte address, in every row";
  }
  if (p.hidden <= kMaxColumns) return "";
  return "10_half_precision has room for 49152 columns: 1024 threads have 64 registers each";
}

cudaError_t launch(const rmsnorm::TypedRmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Shape& shape = shape_for(p);
  const int blocks = (p.rows - 1) / shape.rows + 1;
  shape.kernel<<<blocks, dim3(shape.threads, shape.rows), 0, stream>>>(
      static_cast<const uint4*>(p.x), static_cast<const uint4*>(p.weight), static_cast<uint4*>(p.y),
      p.rows, p.hidden / (16 / bytes_of(p.dtype)), p.eps, p.weight_bias);
  return cudaGetLastError();
}

/// x and y once, the weight once a warp. A weight of 4 bytes for an x of 2 is two loads: each of
/// them touches all sectors of both.
rmsnorm::Traffic traffic(const rmsnorm::TypedRmsNorm& p) {
  const double row = 1.0 * bytes_of(p.dtype) * p.hidden;
  const double parts = 1.0 * bytes_of(p.weight_dtype) / bytes_of(p.dtype);
  const double rows_of_warp = std::max(1.0, 32.0 / shape_for(p).threads);
  const double weight = p.weight == nullptr ? 0 : row * parts * parts / rows_of_warp;
  return {.read = row + weight, .written = row};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
int sum_depth(const rmsnorm::TypedRmsNorm& p) {
  return std::min(p.hidden, shape_for(p).columns) + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::TypedRmsNorm> lesson{{
    .slug = "10_half_precision",
    .title = "Half precision",
    .idea = "Tensors of bf16 or fp16, arithmetic in fp32, one rounding at the end",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
