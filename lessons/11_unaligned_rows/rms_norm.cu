// Lesson 11 - Unaligned rows
// Changed    rows of any length at any address: vectors where memory has them; the weight is late.
// Unchanged  lesson 10: raw vectors wait in registers, fp32 sums, one barrier.
// Expect     a loss where rows are aligned; still vectors for rows that lesson 10 refuses.
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

/// Adds the squares of elements `first` to `last` - 1 of a vector to a sum, one after the other.
template <class T>
__device__ float add_squares(float sum, const uint4& vector, int first, int last) {
#pragma unroll
  for (int e = 0; e < kSize<T>; ++e) {
    const float value = element<T>(vector, e);
    if (first <= e && e < last) sum += value * value;
  }
  return sum;
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

// [kernel]
template <class T, class W, int kThreads, int kVectors>
__global__ void __launch_bounds__(kBlock<kThreads>) rms_norm_unaligned_rows(
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

  // Group i is columns i * kN to i * kN + kN - 1, wherever the row begins.
  // Vector i of y begins where memory has one, `head` columns further on. All
  // groups but the last two have a vector, at every address.
  const int end = row < rows ? hidden : 0;  // a place behind them idles
  const int groups = (end + kN - 1) / kN;
  const int vectors = max(0, groups - 2);
  const int head = (kN - behind_boundary(y)) % kN;
  const int base = warp * kLanes * kVectors;  // the warp's first vector
  const int begin = base + lane;              // the thread's

  // The first group and the last two are loaded column by column. So is every
  // other warp's first group, but for the sum alone.
  constexpr int kSingles = (3 * kN - 1) / kLanes + 1;  // of a thread
  const int count = warp == 0 ? 3 * kN : base < vectors ? kN : 0;
  T singles[kSingles];
  int columns[kSingles];
#pragma unroll
  for (int n = 0; n < kSingles; ++n) {
    const int e = lane + n * kLanes;
    columns[n] = e + (e < kN ? base : max(0, groups - 3)) * kN;
    if (e >= count || columns[n] >= end) columns[n] = -1;
    singles[n] = columns[n] < 0 ? static_cast<T>(0.0f) : x[columns[n]];
  }

  const Windows<T> x_windows(x, head, hidden);
  uint4 v[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = begin + k * kLanes;
    v[k] = i < vectors ? x_windows[i] : make_uint4(0, 0, 0, 0);
  }

  // The sum is one of groups, or a row's result would depend on its address.
  // A group lies in two vectors, of two lanes. The lane before adds up the
  // first columns and sends their sum; this lane goes on with the others.
  float sum = 0, kept = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const float begun = add_squares<T>(0, v[k], kN - head, kN);
    const float out = lane == kLanes - 1 ? kept : begun;
    const float in = __shfl_sync(0xffffffff, out, lane + kLanes - 1, kLanes);
    const float group = add_squares<T>(in, v[k], 0, kN - head);
    const int i = begin + k * kLanes;
    if (i > base && i < vectors) sum += group;
    kept = begun;
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
    uint4 w[kParts];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      w[part] = weight == nullptr ? ones<W>() : weights[i * kParts + part];
    }
    reinterpret_cast<uint4*>(y + head)[i] = scaled<T, W>(v[k], rstd, w, bias);
  }
#pragma unroll
  for (int n = 0; n < kSingles; ++n) {
    const int col = columns[n];
    const bool has_vector = head <= col && col < head + vectors * kN;
    if (col < 0 || has_vector || warp > 0) continue;
    W factor = static_cast<W>(1.0f);
    if (weight != nullptr) factor = weight[col];
    const float value = static_cast<float>(singles[n]) * rstd;
    y[col] = static_cast<T>(value * (static_cast<float>(factor) + bias));
  }
}
// [kernel]

/// How rows are spread over threads, and the kernel for that.
struct Shape {
  int threads, rows, columns;  // of a row, of a block, of a thread
  void (*launch)(const rmsnorm::TypedRmsNorm&, const Shape&, cudaStream_t);
};

template <class T, class W, int kThreads, int kColumns>
void launch_kernel(const rmsnorm::TypedRmsNorm& p, const Shape& shape, cudaStream_t stream) {
  const int blocks = (p.rows - 1) / shape.rows + 1;
  const auto kernel = rms_norm_unaligned_rows<T, W, kThreads, kColumns / kSize<T>>;
  kernel<<<blocks, dim3(kThreads, shape.rows), 0, stream>>>(
      static_cast<const T*>(p.x), static_cast<const W*>(p.weight), static_cast<T*>(p.y), p.rows,
      p.hidden, p.eps, p.weight_bias);
}
template <class T, class W, int kThreads, int kColumns>
constexpr Shape kShape = {
    kThreads, kBlock<kThreads> / kThreads, kColumns, launch_kernel<T, W, kThreads, kColumns>};

/// The first with room for a row is taken. A block of 1024 threads has 64 registers for each.
constexpr int kMaxColumns = 1024 * 48;
template <class T, class W>
constexpr Shape kShapes[] = {kShape<T, W, 8, 16>,   kShape<T, W, 16, 16>,  kShape<T, W, 32, 16>,
                             kShape<T, W, 32, 24>,  kShape<T, W, 64, 24>,  kShape<T, W, 128, 16>,
                             kShape<T, W, 128, 24>, kShape<T, W, 256, 16>, kShape<T, W, 256, 24>,
                             kShape<T, W, 512, 16>, kShape<T, W, 512, 24>, kShape<T, W, 1024, 24>,
                             kShape<T, W, 1024, 48>};

const Shape& shape_for(const rmsnorm::TypedRmsNorm& p) {
  const bool fp32_weight = p.weight_dtype == rmsnorm::Dtype::fp32;
  const Shape* shape = kShapes<float, float>;
  if (p.dtype == rmsnorm::Dtype::fp16) {
    shape = fp32_weight ? kShapes<half, float> : kShapes<half, half>;
  } else if (p.dtype == rmsnorm::Dtype::bf16) {
    shape = fp32_weight ? kShapes<nv_bfloat16, float> : kShapes<nv_bfloat16, nv_bfloat16>;
  }
  const int rest = 2 * 16 / bytes_of(p.dtype);  // two groups without a vector
  const int hidden = std::min(p.hidden, kMaxColumns);
  while (shape->threads * shape->columns + rest < hidden) ++shape;
  return *shape;
}

std::string unsupported(const rmsnorm::TypedRmsNorm& p) {
  if (p.hidden <= kMaxColumns) return "";
  return "11_unaligned_rows has room for 49152 columns: 1024 threads have 64 registers each";
}

cudaError_t launch(const rmsnorm::TypedRmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Shape& shape = shape_for(p);
  shape.launch(p, shape, stream);
  return cudaGetLastError();
}

/// Bytes of the sectors that single columns touch, number `first` to `last` - 1 of a row: each
/// warp asks for as many as it has lanes for the row.
double single_bytes(int first, int last, int lanes, int bytes) {
  double sum = 0;
  for (int e = first; e < last; e = (e / lanes + 1) * lanes) {
    const int next = std::min(last, (e / lanes + 1) * lanes);
    sum += std::max(32, (next - e) * bytes);
  }
  return sum;
}

/// x once and the weight once a warp; but single columns touch whole sectors.
rmsnorm::Traffic traffic(const rmsnorm::TypedRmsNorm& p) {
  const Shape& shape = shape_for(p);
  const int bytes = bytes_of(p.dtype), size = 16 / bytes, lanes = std::min(32, shape.threads);
  const int vectors = std::max(0, (p.hidden + size - 1) / size - 2);
  const int all = std::min(3 * size, p.hidden), head = std::max(0, all - 2 * size);
  const double written = 16.0 * vectors + single_bytes(head, all, lanes, bytes);
  const int warps = std::max(1, (vectors - 1) / (lanes * shape.columns / size) + 1);
  double read = 16.0 * vectors + 32.0 * (warps - 1) +
                (head > 0 ? single_bytes(0, head, lanes, bytes) : 0) +
                single_bytes(head, all, lanes, bytes);
  if (p.weight != nullptr) {
    const int weight_bytes = bytes_of(p.weight_dtype), parts = weight_bytes / bytes;
    read += (16.0 * vectors * parts * parts + single_bytes(head, all, lanes, weight_bytes)) /
            std::max(1, 32 / shape.threads);
  }
  return {.read = read, .written = written};
}

/// The columns of a group, a thread's groups and single columns, then the additions of at most two
/// warps' shuffles.
int sum_depth(const rmsnorm::TypedRmsNorm& p) {
  const Shape& shape = shape_for(p);
  const int size = 16 / bytes_of(p.dtype);
  const int singles = (3 * size - 1) / std::min(32, shape.threads) + 1;
  return std::min(p.hidden, size + shape.columns / size + singles) + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::TypedRmsNorm> lesson{{
    .slug = "11_unaligned_rows",
    .title = "Unaligned rows",
    .idea = "Rows of any length at any address, still in vectors of 16 bytes",
    .regime = "heads",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
