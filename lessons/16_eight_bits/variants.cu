// Lesson 16 - Eight bits, variants
// Changed    who chooses the scale, and when: given; one for each 128 columns; a power of two for
//            each 32 (MXFP8); and one for each row whose largest is found together with the sum.
// Unchanged  the row in registers, x read once, e4m3. For bf16 and fp16, the weight of x's type.
// Expect     a given scale to be closest to the roof: it has the least to do. And one barrier?
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>
#include <string>
#include <type_traits>

#include "common/operations/rms_norm_fp8.hpp"

namespace {

enum class Way { given, given_256, group, mxfp8, one_barrier };

/// Is the scale given?
template <Way kWay>
constexpr bool kIsGiven = kWay == Way::given || kWay == Way::given_256;

/// Has it a scale for each few columns?
template <Way kWay>
constexpr bool kHasGroups = kWay == Way::group || kWay == Way::mxfp8;

/// A scale as it is stored.
template <Way kWay>
using Scale = std::conditional_t<kWay == Way::mxfp8, std::uint8_t, float>;

constexpr float kLargest = 448;  // of e4m3
constexpr float kLeast = rmsnorm::least_scale(rmsnorm::Dtype::e4m3);
constexpr int kSize = 8;  // columns of a vector of 16 bytes

/// Lanes that hold a group.
template <Way kWay>
constexpr int kLanes = (kWay == Way::mxfp8 ? rmsnorm::kScaleBlock : rmsnorm::kGroup) / kSize;

/// Threads of a block, if kThreads share a row.
template <int kThreads>
constexpr int kBlock = kThreads <= 32 ? 128 : kThreads;

/// Threads that an SM is to hold, as in the lesson.
template <int kVectors>
constexpr int threads_on_sm() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if (kVectors == 2) return 1280;
#endif
  return 1024;
}

/// Column e of a vector.
template <class T>
__device__ float element(const uint4& vector, int e) {
  if constexpr (std::is_same_v<T, nv_bfloat16>) {  // a float's upper half
    const unsigned two = reinterpret_cast<const unsigned*>(&vector)[e / 2];
    return __uint_as_float(e % 2 == 0 ? two << 16 : two & 0xffff0000);
  } else {
    return __half2float(reinterpret_cast<const half*>(&vector)[e]);
  }
}

/// The exponent of the smallest power of two that is not less, with its bias of 127: e8m0.
__device__ unsigned exponent_for(float least) {
  if (least <= 0x1p-127f) return 0;
  return min((__float_as_uint(least) + 0x7fffff) >> 23, 254u);  // a carry: the next power
}

/// The power of two with that exponent.
__device__ float power_of(unsigned exponent) {
  return __uint_as_float(max(exponent << 23, 0x400000u));  // 2^-127 is subnormal
}

/// The sum and the largest over kNumber neighbouring lanes. Each of them gets both.
template <int kNumber>
__device__ float2 of_lanes(float2 value) {
  for (int distance = kNumber / 2; distance > 0; distance /= 2) {
    value.x += __shfl_xor_sync(0xffffffff, value.x, distance);
    value.y = fmaxf(value.y, __shfl_xor_sync(0xffffffff, value.y, distance));
  }
  return value;
}

/// The same over the kThreads threads of a row, by one barrier. `partial` is for this alone.
template <int kThreads>
__device__ float2 of_row(float2 value, float2* partial) {
  constexpr int kShared = kThreads < 32 ? kThreads : 32;  // lanes with a part of the row
  value = of_lanes<kShared>(value);
  if constexpr (kThreads > 32) {
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's sum and largest are in partial[]
    value = threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : float2{};
    value = of_lanes<32>(value);
  }
  return value;
}

template <Way kWay, class T, int kThreads, int kVectors>
__global__ void __launch_bounds__(  // most threads, fewest blocks per SM
    kBlock<kThreads>, threads_on_sm<kVectors>() / kBlock<kThreads>)
    rms_norm_scaled(
        const uint4* __restrict__ x,               // (rows, vectors)  read once
        const uint4* __restrict__ weight,          // (vectors)        once a warp, or null
        const float* __restrict__ limit_or_scale,  // (1)              once a warp
        uint2* __restrict__ y,                     // (rows, vectors)  written once
        Scale<kWay>* __restrict__ scale,           // (rows, groups), (rows) or null  written once
        int rows, int vectors, float eps, float bias) {
  __shared__ float2 partial[2][kThreads / 32 + 1];
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors, keep);
  y += row * vectors;
  const int end = row < rows ? vectors : 0;  // a place behind them idles
  constexpr bool kEarly = kVectors <= 2 || kWay == Way::one_barrier;
  uint4 v[kVectors] = {}, w[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i < end) v[k] = x[i];
    if (kEarly && weight != nullptr && i < end) w[k] = weight[i];
  }
  const float given = *limit_or_scale;
  const auto factor = [&](int k, int e) {
    return weight == nullptr ? 1 : element<T>(w[k], e) + bias;
  };
  float2 of_x = {};  // the sum of squares, and the largest |x * weight|
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const bool is_there = static_cast<int>(threadIdx.x) + k * kThreads < end;
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      const float value = element<T>(v[k], e);
      of_x.x += value * value;
      if (kWay == Way::one_barrier && is_there) of_x.y = fmaxf(of_x.y, fabsf(value * factor(k, e)));
    }
  }
  of_x = of_row<kThreads>(of_x, partial[0]);
  const float rstd = rsqrtf(of_x.x / (kSize * vectors) + eps);
  float norm[kVectors][kSize];
  float2 of_norm[kVectors] = {};  // 0, and the largest of a vector
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    const bool is_there = i < end;
    if (!kEarly && weight != nullptr && is_there) w[k] = weight[i];
#pragma unroll
    for (int e = 0; e < kSize; ++e) {
      norm[k][e] = is_there ? element<T>(v[k], e) * rstd * factor(k, e) : 0;
      of_norm[k].y = fmaxf(of_norm[k].y, fabsf(norm[k][e]));
    }
  }
  float largest = rstd * of_x.y;
  if constexpr (kWay == Way::one_barrier) {
    // Beyond fp32's range, a product says nothing: the norms have to. A row of several warps has a
    // block of its own, so all of the block's threads take this branch or none.
    if (kThreads <= 32 || !(largest > 0 && largest < INFINITY)) {
      float2 most = {};
#pragma unroll
      for (const float2& of_vector : of_norm) most.y = fmaxf(most.y, of_vector.y);
      largest = of_row<kThreads>(most, partial[1]).y;
    }
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (kHasGroups<kWay>) largest = of_lanes<kLanes<kWay>>(of_norm[k]).y;
    Scale<kWay> stored;
    float divisor;
    if constexpr (kWay == Way::mxfp8) {
      stored = static_cast<std::uint8_t>(exponent_for(fminf(largest, given) / kLargest));
      divisor = power_of(stored);
    } else {
      divisor = kIsGiven<kWay> ? given : fmaxf(fminf(largest, given) / kLargest, kLeast);
      stored = divisor;
    }
    if (kHasGroups<kWay> && i % kLanes<kWay> == 0 && i < end) {
      scale[row * ((vectors - 1) / kLanes<kWay> + 1) + i / kLanes<kWay>] = stored;
    }
    if (kWay == Way::one_barrier && i == 0 && i < end) scale[row] = divisor;
    const float r = 1 / divisor;
    uint2 codes;
#pragma unroll
    for (int e = 0; e < kSize; e += 4) {
      const float* const n = norm[k] + e;
      const float4 four = {n[0] * r, n[1] * r, n[2] * r, n[3] * r};
      reinterpret_cast<__nv_fp8x4_e4m3*>(&codes)[e / 4] = __nv_fp8x4_e4m3(four);
    }
    if (i < end) y[i] = codes;
  }
}

/// How rows are spread over threads, and the kernel for that.
template <Way kWay>
struct Shape {
  int threads, rows, vectors;  // of a row, of a block, of a thread
  void (*kernel)(
      const uint4*, const uint4*, const float*, uint2*, Scale<kWay>*, int, int, float, float);
};
template <Way kWay, class T, int kThreads, int kVectors>
constexpr Shape<kWay> kShape = {
    kThreads, kBlock<kThreads> / kThreads, kVectors, rms_norm_scaled<kWay, T, kThreads, kVectors>};

/// The shape for rows of up to 128 columns: the lesson's, or a vector per lane for groups of lanes.
template <Way kWay, class T>
constexpr Shape<kWay> kShapeOf128 =
    kShape<kWay, T, kHasGroups<kWay> ? 16 : 8, kHasGroups<kWay> ? 1 : 2>;

/// The shape for rows of 2056 to 4096 columns.
template <Way kWay, class T>
constexpr Shape<kWay> kShapeOf4096 = kShape<kWay, T, 128, 4>;
template <class T>
constexpr Shape<Way::given_256> kShapeOf4096<Way::given_256, T> = kShape<Way::given_256, T, 256, 2>;

/// The first with room for a row is taken.
constexpr int kMaxColumns = 512 * 4 * kSize;
template <Way kWay, class T>
constexpr Shape<kWay> kShapes[] = {kShapeOf128<kWay, T>,    kShape<kWay, T, 32, 2>,
                                   kShape<kWay, T, 128, 2>, kShapeOf4096<kWay, T>,
                                   kShape<kWay, T, 256, 4>, kShape<kWay, T, 512, 4>};

template <Way kWay, class Op>
const Shape<kWay>& shape_for(const Op& p) {
  const bool is_fp16 = p.dtype == rmsnorm::Dtype::fp16;
  const Shape<kWay>* shape = is_fp16 ? kShapes<kWay, half> : kShapes<kWay, nv_bfloat16>;
  while (shape->threads * shape->vectors * kSize < std::min(p.hidden, kMaxColumns)) ++shape;
  return *shape;
}

template <class Op>
std::string unsupported(const Op& p) {
  if (p.dtype == rmsnorm::Dtype::fp32 || (p.weight != nullptr && p.weight_dtype != p.dtype)) {
    return "16_eight_bits' variants know x and weight of one type of 16 bits only: 8 columns are a "
           "vector of each";
  }
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  if ((address(p.x) | address(p.weight)) % 16 != 0 || address(p.y) % 8 != 0 || p.hidden % 8 != 0) {
    return "16_eight_bits' variants need rows of whole 16-byte vectors at 16-byte addresses, and y "
           "at a multiple of 8: a load or a store needs an address that is a multiple of its size";
  }
  if (p.hidden <= kMaxColumns) return "";
  return "16_eight_bits' variants have room for 16384 columns: 512 threads load 4 vectors each";
}

template <Way kWay, class Op>
cudaError_t launch(const Op& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Shape<kWay>& shape = shape_for<kWay>(p);
  const int blocks = (p.rows - 1) / shape.rows + 1;
  shape.kernel<<<blocks, dim3(shape.threads, shape.rows), 0, stream>>>(
      static_cast<const uint4*>(p.x), static_cast<const uint4*>(p.weight), p.limit_or_scale,
      static_cast<uint2*>(p.y), p.scale, p.rows, p.hidden / kSize, p.eps, p.weight_bias);
  return cudaGetLastError();
}

/// x once; the weight and the limit or the scale once a warp. A byte for each column. A warp's
/// scales are a sector: those of its two groups or eight blocks, or of its rows.
template <Way kWay, class Op>
rmsnorm::Traffic traffic(const Op& p) {
  const Shape<kWay>& shape = shape_for<kWay>(p);
  const double row = 2.0 * p.hidden;
  const double rows_of_warp = std::max(1.0, 32.0 / shape.threads);
  const double weight = p.weight == nullptr ? 0 : row / rows_of_warp;
  const double warps = kHasGroups<kWay> ? std::max(1, (p.hidden - 1) / (32 * kSize) + 1) : 1;
  const double scales = kIsGiven<kWay> ? 0 : 32 * warps / rows_of_warp;
  return {.read = row + weight + shape.threads, .written = p.hidden + scales};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
template <Way kWay, class Op>
int sum_depth(const Op& p) {
  return std::min(p.hidden, shape_for<kWay>(p).vectors * kSize) + 5 + 5;
}

template <Way kWay, class Op>
rmsnorm::Lesson<Op> variant(const char* slug, const char* title, const char* idea) {
  return {
      .slug = slug,
      .title = title,
      .idea = idea,
      .regime = "prefill",
      .launch = launch<kWay, Op>,
      .unsupported = unsupported<Op>,
      .traffic = traffic<kWay, Op>,
      .sum_depth = sum_depth<kWay, Op>,
  };
}

const rmsnorm::Registration<rmsnorm::RmsNormE4m3> given{variant<Way::given, rmsnorm::RmsNormE4m3>(
    "16_eight_bits/given", "Eight bits: a given scale", "No search for the largest norm")};
const rmsnorm::Registration<rmsnorm::RmsNormE4m3> given_256{
    variant<Way::given_256, rmsnorm::RmsNormE4m3>(
        "16_eight_bits/given_256", "Eight bits: 256 threads",
        "As given, but 4096 columns have 256 threads, which load the weight early")};
const rmsnorm::Registration<rmsnorm::RmsNormE4m3Group> group{
    variant<Way::group, rmsnorm::RmsNormE4m3Group>(
        "16_eight_bits/group", "Eight bits: groups",
        "A scale for each 128 columns, which 16 lanes of a warp hold")};
const rmsnorm::Registration<rmsnorm::RmsNormMxfp8> mxfp8{variant<Way::mxfp8, rmsnorm::RmsNormMxfp8>(
    "16_eight_bits/mxfp8", "Eight bits: MXFP8",
    "A power of two for each 32 columns, which 4 lanes of a warp hold")};
const rmsnorm::Registration<rmsnorm::RmsNormE4m3Row> one_barrier{
    variant<Way::one_barrier, rmsnorm::RmsNormE4m3Row>(
        "16_eight_bits/one_barrier", "Eight bits: one barrier",
        "The largest x * weight is found together with the sum")};

}  // namespace
