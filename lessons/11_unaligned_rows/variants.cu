// Lesson 11 - Unaligned rows, variants
// plain     squares are added as they lie in vectors: a row's last bits depend on its address. No
//           single columns in aligned rows, and less to execute.
// early     plain, and the weight is loaded before the sum, in rows of few vectors as in lesson 10.
// elements  one number per load: no vectors, no windows, no head and no tail.
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

/// Elements of a vector: what 16 bytes hold.
template <class T>
constexpr int kSize = 16 / sizeof(T);

/// Element e of a vector, as in lesson 10.
template <class T>
__device__ float element(const uint4& vector, int e) {
  if constexpr (std::is_same_v<T, nv_bfloat16>) {  // a float's upper half
    const unsigned two = reinterpret_cast<const unsigned*>(&vector)[e / 2];
    return __uint_as_float(e % 2 == 0 ? two << 16 : two & 0xffff0000);
  } else {
    return static_cast<float>(reinterpret_cast<const T*>(&vector)[e]);
  }
}

/// How many elements lie between an address and the 16-byte boundary below it.
template <class T>
__device__ int behind_boundary(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 / sizeof(T);
}

/// A row in windows of 16 bytes, from its column `head` on.
template <class T>
struct Windows {
  const uint4* vector;  ///< of memory: the one in which window 0 begins
  int before;           ///< elements of it in front of the window
  int first, last;      ///< windows whose vectors are all the row's own: first to last - 1

  __device__ Windows(const T* row, int head, int hidden) {
    before = behind_boundary(row + head);
    vector = reinterpret_cast<const uint4*>(row + head - before);
    first = before > head ? 1 : 0;
    last = (hidden - head + before) / kSize<T> - 1;
  }

  /// The bytes `offset` to `offset` + 15 of two neighbouring vectors, where offset is even and less
  /// than 16.
  __device__ static uint4 shifted(const uint4& low, const uint4& high, unsigned offset) {
    unsigned word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if (offset & 8) {
#pragma unroll
      for (int i = 0; i < 6; ++i) word[i] = word[i + 2];
    }
    if (offset & 4) {
#pragma unroll
      for (int i = 0; i < 5; ++i) word[i] = word[i + 1];
    }
    const unsigned bits = offset % 4 * 8;
    return make_uint4(
        __funnelshift_r(word[0], word[1], bits), __funnelshift_r(word[1], word[2], bits),
        __funnelshift_r(word[2], word[3], bits), __funnelshift_r(word[3], word[4], bits));
  }

  /// Window i: one vector of memory, or what is needed of two.
  __device__ uint4 operator[](int i) const {
    if (before == 0) return vector[i];
    if (first <= i && i < last) {
      const uint4 low = vector[i], high = vector[i + 1];
      return shifted(low, high, before * sizeof(T));
    }
    uint4 result;  // element by element
#pragma unroll
    for (int e = 0; e < kSize<T>; ++e) {
      reinterpret_cast<T*>(&result)[e] = reinterpret_cast<const T*>(vector + i)[before + e];
    }
    return result;
  }
};

/// A vector of ones.
template <class T>
__device__ uint4 ones() {
  uint4 vector;
  for (int e = 0; e < kSize<T>; ++e) reinterpret_cast<T*>(&vector)[e] = static_cast<T>(1.0f);
  return vector;
}

/// A vector of x times rstd times the weight and its bias, each element rounded once.
template <class T, class W>
__device__ uint4 scaled(const uint4& x, float rstd, const uint4* weight, float bias) {
  uint4 result;
#pragma unroll
  for (int e = 0; e < kSize<T>; ++e) {
    const float factor = element<W>(weight[e / kSize<W>], e % kSize<W>) + bias;
    reinterpret_cast<T*>(&result)[e] = static_cast<T>(element<T>(x, e) * rstd * factor);
  }
  return result;
}

/// Threads of a block, if kThreads share a row.
template <int kThreads>
constexpr int kBlock = kThreads <= 32 ? 128 : kThreads;

template <class T, class W, int kThreads, int kVectors, bool kEarly>
__global__ void __launch_bounds__(kBlock<kThreads>) rms_norm_unaligned_plain(
    const T* __restrict__ x,       // (rows, hidden)  read once
    const W* __restrict__ weight,  // (hidden)        once or twice a warp
    T* __restrict__ y,             // (rows, hidden)  written once
    int rows, int hidden, float eps, float bias) {
  constexpr int kLanes = kThreads < 32 ? kThreads : 32;  // in a warp
  constexpr int kN = kSize<T>, kParts = sizeof(W) / sizeof(T);
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * hidden, keep);
  y += row * hidden;  // in 64 bits: rows * hidden can exceed 2^31

  // Vector i of y begins where memory has one, `head` columns further on.
  const int end = row < rows ? hidden : 0;  // a place behind them idles
  const int head = min(end, (kN - behind_boundary(y)) % kN);
  const int vectors = (end - head) / kN;
  const int begin = warp * kLanes * kVectors + lane;  // the thread's first

  // The columns before the first vector and behind the last, one by one.
  constexpr int kSingles = (2 * kN - 1) / kLanes + 1;  // of a thread
  T singles[kSingles];
  int columns[kSingles];
#pragma unroll
  for (int n = 0; n < kSingles; ++n) {
    const int e = lane + n * kLanes;
    columns[n] = e < head ? e : e + vectors * kN;
    if (warp > 0 || columns[n] >= end) columns[n] = -1;
    singles[n] = columns[n] < 0 ? static_cast<T>(0.0f) : x[columns[n]];
  }

  uint4 early[kEarly ? kVectors : 1][kParts];
  if constexpr (kEarly) {
    const Windows<W> weights(weight, weight == nullptr ? 0 : head, hidden);
#pragma unroll
    for (auto& factors : early) {
#pragma unroll
      for (uint4& part : factors) part = ones<W>();  // where there is no weight
    }
    if (weight != nullptr) {
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        const int i = begin + k * kLanes;
        if (i >= vectors) continue;
#pragma unroll
        for (int part = 0; part < kParts; ++part) early[k][part] = weights[i * kParts + part];
      }
    }
  }

  const Windows<T> x_windows(x, head, hidden);
  uint4 v[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * kLanes;
    v[k] = i < vectors ? x_windows[i] : make_uint4(0, 0, 0, 0);
  }

  float sum = 0;
#pragma unroll
  for (const uint4& u : v) {
#pragma unroll
    for (int e = 0; e < kN; ++e) sum += element<T>(u, e) * element<T>(u, e);
  }
#pragma unroll
  for (const T value : singles) {
    sum += static_cast<float>(value) * static_cast<float>(value);
  }
  const float rstd = rsqrtf(row_sum<kThreads>(sum) / hidden + eps);

  const Windows<W> weights(weight, weight == nullptr ? 0 : head, hidden);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * kLanes;
    if (i >= vectors) continue;
    uint4 factors[kParts];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if constexpr (kEarly) {
        factors[part] = early[k][part];
      } else {
        factors[part] = weight == nullptr ? ones<W>() : weights[i * kParts + part];
      }
    }
    reinterpret_cast<uint4*>(y + head)[i] = scaled<T, W>(v[k], rstd, factors, bias);
  }
#pragma unroll
  for (int n = 0; n < kSingles; ++n) {
    const int col = columns[n];
    if (col < 0) continue;
    W factor = static_cast<W>(1.0f);
    if (weight != nullptr) factor = weight[col];
    const float value = static_cast<float>(singles[n]) * rstd;
    y[col] = static_cast<T>(value * (static_cast<float>(factor) + bias));
  }
}

template <class T, class W, int kThreads, int kColumns>
__global__ void __launch_bounds__(kBlock<kThreads>) rms_norm_unaligned_elements(
    const T* __restrict__ x,       // (rows, hidden)  read once
    const W* __restrict__ weight,  // (hidden)        once a warp
    T* __restrict__ y,             // (rows, hidden)  written once
    int rows, int hidden, float eps, float bias) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * hidden, keep);
  y += row * hidden;  // in 64 bits: rows * hidden can exceed 2^31

  const int end = row < rows ? hidden : 0;  // a place behind them idles
  T v[kColumns];
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    const int col = threadIdx.x + k * kThreads;
    v[k] = col < end ? x[col] : static_cast<T>(0.0f);
  }
  float sum = 0;
#pragma unroll
  for (const T value : v) sum += static_cast<float>(value) * static_cast<float>(value);
  const float rstd = rsqrtf(row_sum<kThreads>(sum) / hidden + eps);
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    const int col = threadIdx.x + k * kThreads;
    if (col >= end) continue;
    W factor = static_cast<W>(1.0f);
    if (weight != nullptr) factor = weight[col];
    const float value = static_cast<float>(v[k]) * rstd;
    y[col] = static_cast<T>(value * (static_cast<float>(factor) + bias));
  }
}

enum Variant { kPlain, kEarlyWeight, kElements };

/// A block of 1024 threads has 64 registers for each.
constexpr int kMaxColumns = 1024 * 48;

/// How rows are spread over threads, and the kernel for that.
struct Shape {
  int threads, rows, columns;  // of a row, of a block, of a thread
  void (*launch)(const rmsnorm::TypedRmsNorm&, const Shape&, cudaStream_t);
};

template <Variant kVariant, class T, class W, int kThreads, int kColumns>
void launch_kernel(const rmsnorm::TypedRmsNorm& p, const Shape& shape, cudaStream_t stream) {
  const int blocks = (p.rows - 1) / shape.rows + 1;
  constexpr int kVectors = kColumns / kSize<T>, kParts = sizeof(W) / sizeof(T);
  // The last columns of a row that is no whole vectors take one more of a thread.
  constexpr int kAll = kThreads * kColumns < kMaxColumns ? kColumns + 1 : kColumns;
  auto* kernel = rms_norm_unaligned_elements<T, W, kThreads, kAll>;
  if constexpr (kVariant != kElements) {
    constexpr bool kEarly = kVariant == kEarlyWeight && kVectors * kParts <= 4;
    kernel = rms_norm_unaligned_plain<T, W, kThreads, kVectors, kEarly>;
  }
  kernel<<<blocks, dim3(kThreads, shape.rows), 0, stream>>>(
      static_cast<const T*>(p.x), static_cast<const W*>(p.weight), static_cast<T*>(p.y), p.rows,
      p.hidden, p.eps, p.weight_bias);
}
template <Variant kVariant, class T, class W, int kThreads, int kColumns>
constexpr Shape kShape = {
    kThreads, kBlock<kThreads> / kThreads, kColumns,
    launch_kernel<kVariant, T, W, kThreads, kColumns>};

/// The first with room for a row's vectors is taken.
template <Variant kV, class T, class W>
constexpr Shape kShapes[] = {
    kShape<kV, T, W, 8, 16>,   kShape<kV, T, W, 16, 16>,  kShape<kV, T, W, 32, 16>,
    kShape<kV, T, W, 32, 24>,  kShape<kV, T, W, 64, 24>,  kShape<kV, T, W, 128, 16>,
    kShape<kV, T, W, 128, 24>, kShape<kV, T, W, 256, 16>, kShape<kV, T, W, 256, 24>,
    kShape<kV, T, W, 512, 16>, kShape<kV, T, W, 512, 24>, kShape<kV, T, W, 1024, 24>,
    kShape<kV, T, W, 1024, 48>};

template <Variant kV>
const Shape& shape_for(const rmsnorm::TypedRmsNorm& p) {
  const bool fp32_weight = p.weight_dtype == rmsnorm::Dtype::fp32;
  const Shape* shape = kShapes<kV, float, float>;
  if (p.dtype == rmsnorm::Dtype::fp16) {
    shape = fp32_weight ? kShapes<kV, half, float> : kShapes<kV, half, half>;
  } else if (p.dtype == rmsnorm::Dtype::bf16) {
    shape = fp32_weight ? kShapes<kV, nv_bfloat16, float> : kShapes<kV, nv_bfloat16, nv_bfloat16>;
  }
  const int size = 16 / bytes_of(p.dtype);
  const int hidden = std::min(p.hidden - p.hidden % size, kMaxColumns);  // in whole vectors
  while (shape->threads * shape->columns < hidden) ++shape;
  return *shape;
}

std::string unsupported(const rmsnorm::TypedRmsNorm& p) {
  if (p.hidden <= kMaxColumns) return "";
  return "11_unaligned_rows has room for 49152 columns: 1024 threads have 64 registers each";
}

template <Variant kV>
cudaError_t launch(const rmsnorm::TypedRmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Shape& shape = shape_for<kV>(p);
  shape.launch(p, shape, stream);
  return cudaGetLastError();
}

/// x and y once, the weight once a warp, where rows are whole vectors at addresses of vectors.
/// Others touch some sectors twice, and so does one number per lane where few lanes have a row.
template <Variant kV>
rmsnorm::Traffic traffic(const rmsnorm::TypedRmsNorm& p) {
  const double row = 1.0 * bytes_of(p.dtype) * p.hidden;
  const double parts = 1.0 * bytes_of(p.weight_dtype) / bytes_of(p.dtype);
  const int threads = shape_for<kV>(p).threads;
  const auto times = [&](rmsnorm::Dtype dtype) {  // that a sector is asked for
    return kV == kElements ? std::max(1.0, 32.0 / std::min(32, threads) / bytes_of(dtype)) : 1.0;
  };
  double weight = p.weight == nullptr ? 0 : row * parts / std::max(1.0, 32.0 / threads);
  weight *= kV == kElements ? times(p.weight_dtype) : parts;
  return {.read = row * times(p.dtype) + weight, .written = row * times(p.dtype)};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
template <Variant kV>
int sum_depth(const rmsnorm::TypedRmsNorm& p) {
  const int lanes = std::min(32, shape_for<kV>(p).threads), size = 16 / bytes_of(p.dtype);
  const int singles = kV == kElements ? 1 : (2 * size - 1) / lanes + 1;
  return std::min(p.hidden, shape_for<kV>(p).columns + singles) + 5 + 5;
}

template <Variant kV>
rmsnorm::Lesson<rmsnorm::TypedRmsNorm> variant(
    const char* slug, const char* title, const char* idea) {
  return {
      .slug = slug,
      .title = title,
      .idea = idea,
      .regime = "heads",
      .launch = launch<kV>,
      .unsupported = unsupported,
      .traffic = traffic<kV>,
      .sum_depth = sum_depth<kV>,
  };
}

const rmsnorm::Registration<rmsnorm::TypedRmsNorm> plain{variant<kPlain>(
    "11_unaligned_rows/plain", "Unaligned rows: any order",
    "Each lane adds up its own vectors, in whatever order the row's address makes of it")};
const rmsnorm::Registration<rmsnorm::TypedRmsNorm> early{variant<kEarlyWeight>(
    "11_unaligned_rows/early", "Unaligned rows: any order, early weight",
    "Like plain, with the weight loaded before the sum where a row has few vectors")};
const rmsnorm::Registration<rmsnorm::TypedRmsNorm> elements{variant<kElements>(
    "11_unaligned_rows/elements", "Unaligned rows: one number per load",
    "No vectors: each thread loads and stores one number after the other")};

}  // namespace
