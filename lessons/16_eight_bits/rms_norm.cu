// Lesson 16 - Eight bits
// Changed    y in e4m3, divided by a scale for each row: its largest value takes a second barrier.
// Unchanged  lesson 10's loads and sum; the row in registers, so x is read once.
// Expect     in 16 bits, 3 bytes per column instead of 4: faster in prefill, not with few rows.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>
#include <type_traits>

#include "common/operations/rms_norm_fp8.hpp"

namespace {

constexpr float kLargest = 448;  // of e4m3
constexpr float kLeast = rmsnorm::least_scale(rmsnorm::Dtype::e4m3);

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {  // of a number and NaN, the number
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// What the kThreads threads of a row have, 0 or more, combined. Every thread gets it.
template <class Combine, int kThreads>
__device__ float of_row(float value) {
  for (int distance = kThreads < 32 ? kThreads / 2 : 16; distance > 0; distance /= 2) {
    value = Combine()(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  if constexpr (kThreads > 32) {
    __shared__ float partial[kThreads / 32];  // Add has one, and Larger another
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's value is in partial[]
    value = threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : 0;
    value = of_row<Combine, 32>(value);
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

/// Elements of a vector: what 16 bytes hold.
template <class T>
constexpr int kSize = 16 / sizeof(T);

/// Element e of a vector, which stays raw until then: see lesson 10.
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

/// Threads that an SM is to hold. Of its 65536 registers, each of 1280 can have 48, of 1024 64, of
/// 768 80, of 512 128. Turing has no room for more than 1024.
template <class T, class W, int kVectors>
constexpr int threads_on_sm() {
  constexpr int kColumns = kVectors * 16 / sizeof(T);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if (kColumns == 16 && sizeof(W) == 2) return 1280;
#endif
  if (kColumns == 32) return sizeof(T) == 2 ? 1024 : 768;
  return kColumns < 32 ? 1024 : 512;
}

// [kernel]
/// What is stored of a vector, a byte for each column: 8 bytes, or 4.
template <class T>
using Codes = std::conditional_t<kSize<T> == 8, uint2, unsigned>;

template <class T, class W, int kThreads, int kVectors>
__global__ void __launch_bounds__(  // most threads, fewest blocks per SM
    kBlock<kThreads>, threads_on_sm<T, W, kVectors>() / kBlock<kThreads>)
    rms_norm_eight_bits(
        const uint4* __restrict__ x,       // (rows, vectors)  read once
        const uint4* __restrict__ weight,  // (vectors of W)   once a warp
        const float* __restrict__ limit,   // (1)              once a warp
        Codes<T>* __restrict__ y,          // (rows, vectors)  written once
        float* __restrict__ scale,         // (rows)           written once
        int rows, int vectors, float eps, float bias) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  y += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors, keep);
  const int end = row < rows ? vectors : 0;  // a place behind them idles
  const int end_of_weight = weight == nullptr ? 0 : end;
  constexpr int kParts = sizeof(W) / sizeof(T);       // of weight, to one
  constexpr bool kEarly = kVectors * kSize<T> <= 16;  // else no room
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
  // The branch keeps these loads in front of the first use of x.
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
  const float most = *limit;
  sum = of_row<Add, kThreads>(sum);
  const float rstd = rsqrtf(sum / (kSize<T> * vectors) + eps);
  float norm[kVectors][kSize<T>], largest = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    uint4* const factors = w[kEarly ? k : 0];
    const int i = threadIdx.x + k * kThreads;
    if (!kEarly) load_weight(i < end_of_weight, i, factors);
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      const uint4& part = factors[e / kSize<W>];
      const float factor = element<W>(part, e % kSize<W>) + bias;
      norm[k][e] = element<T>(v[k], e) * rstd * factor;
      largest = fmaxf(largest, fabsf(norm[k][e]));
    }
  }
  largest = fminf(of_row<Larger, kThreads>(largest), most);
  const float divisor = fmaxf(largest / kLargest, kLeast);
  if (threadIdx.x == 0 && end > 0) scale[row] = divisor;
  const float r = 1 / divisor;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    Codes<T> codes;
#pragma unroll
    for (int e = 0; e < kSize<T>; e += 4) {  // beyond 448 it saturates
      const float* const n = norm[k] + e;
      const float4 four = {n[0] * r, n[1] * r, n[2] * r, n[3] * r};
      auto* const quads = reinterpret_cast<__nv_fp8x4_e4m3*>(&codes);
      quads[e / 4] = __nv_fp8x4_e4m3(four);
    }
    const int i = threadIdx.x + k * kThreads;
    if (i < end) y[i] = codes;
  }
}
// [kernel]

/// How rows are spread over threads, and the kernel for that.
template <class T>
struct Shape {
  int threads, rows, columns;  // of a row, of a block, of a thread
  void (*kernel)(
      const uint4*, const uint4*, const float*, Codes<T>*, float*, int, int, float, float);
};
template <class T, class W, int kThreads, int kColumns>
constexpr Shape<T> kShape = {
    kThreads, kBlock<kThreads> / kThreads, kColumns,
    rms_norm_eight_bits<T, W, kThreads, kColumns / kSize<T>>};

/// The first with room for a row is taken. A block of 512 threads has 128 registers for each.
constexpr int kMaxColumns = 512 * 96;
template <class T, class W>
constexpr Shape<T> kShapes[] = {kShape<T, W, 8, 16>,   kShape<T, W, 16, 16>,  kShape<T, W, 32, 16>,
                                kShape<T, W, 128, 16>, kShape<T, W, 128, 32>, kShape<T, W, 256, 32>,
                                kShape<T, W, 256, 64>, kShape<T, W, 512, 96>};

/// Calls use(shape) with that of a problem.
template <class Use>
auto with_shape(const rmsnorm::RmsNormE4m3Row& p, Use use) {
  const auto first = [&](const auto* shape) {
    while (shape->threads * shape->columns < std::min(p.hidden, kMaxColumns)) ++shape;
    return use(*shape);
  };
  const bool fp32_weight = p.weight_dtype == rmsnorm::Dtype::fp32;
  if (p.dtype == rmsnorm::Dtype::fp32) return first(kShapes<float, float>);
  if (p.dtype == rmsnorm::Dtype::fp16) {
    return fp32_weight ? first(kShapes<half, float>) : first(kShapes<half, half>);
  }
  return fp32_weight ? first(kShapes<nv_bfloat16, float>)
                     : first(kShapes<nv_bfloat16, nv_bfloat16>);
}

std::string unsupported(const rmsnorm::RmsNormE4m3Row& p) {
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  const auto bytes =
      address(p.x) | address(p.weight) | std::uintptr_t{p.hidden * std::size_t(bytes_of(p.dtype))};
  if (bytes % 16 != 0 || address(p.y) % 8 != 0) {
    return "16_eight_bits needs rows of whole 16-byte vectors at 16-byte addresses, and y at a "
           "multiple of 8: a load or a store needs an address that is a multiple of its size";
  }
  if (p.hidden <= kMaxColumns) return "";
  return "16_eight_bits has room for 49152 columns: 512 threads have 128 registers each";
}

cudaError_t launch(const rmsnorm::RmsNormE4m3Row& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  return with_shape(p, [&]<class T>(const Shape<T>& shape) {
    const int blocks = (p.rows - 1) / shape.rows + 1;
    shape.kernel<<<blocks, dim3(shape.threads, shape.rows), 0, stream>>>(
        static_cast<const uint4*>(p.x), static_cast<const uint4*>(p.weight), p.limit_or_scale,
        static_cast<Codes<T>*>(p.y), p.scale, p.rows, p.hidden / kSize<T>, p.eps, p.weight_bias);
    return cudaGetLastError();
  });
}

/// x once, the weight as in lesson 10, and the limit once a warp, a sector. A byte for each column,
/// and one sector for the scales of a warp's rows.
rmsnorm::Traffic traffic(const rmsnorm::RmsNormE4m3Row& p) {
  return with_shape(p, [&](const auto& shape) {
    const double row = 1.0 * bytes_of(p.dtype) * p.hidden;
    const double parts = 1.0 * bytes_of(p.weight_dtype) / bytes_of(p.dtype);
    const double rows_of_warp = std::max(1.0, 32.0 / shape.threads);
    const double weight = p.weight == nullptr ? 0 : row * parts * parts / rows_of_warp;
    const double limit = 32.0 * shape.threads / 32;
    return rmsnorm::Traffic{.read = row + weight + limit, .written = p.hidden + 32 / rows_of_warp};
  });
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
int sum_depth(const rmsnorm::RmsNormE4m3Row& p) {
  return with_shape(p, [&](const auto& shape) { return std::min(p.hidden, shape.columns) + 10; });
}

const rmsnorm::Registration<rmsnorm::RmsNormE4m3Row> lesson{{
    .slug = "16_eight_bits",
    .title = "Eight bits",
    .idea = "A norm in 8 bits for a matrix product: a scale for each row, and x still read once",
    .regime = "prefill",
    .starts_from = "10_half_precision",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
