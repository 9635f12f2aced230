// Lesson 13 - Residual add
// Changed    x + residual is normalised, and takes the residual's place: one kernel instead of two.
// Unchanged  lesson 12: the row in registers, loads first, one barrier, launches that overlap.
// Expect     four tensors cross memory, where two kernels move five: four fifths of the time.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>
#include <iterator>
#include <type_traits>

#include "common/operations/residual_add.hpp"

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

/// Waits until what the kernels before this one have written is there. Needs Hopper or later.
__device__ void wait_for_inputs() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets the next kernel set up its grid, if its launch allows that. It waits for this one's end.
__device__ void let_next_begin() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// The columns of a vector, in fp32. A bf16 is the upper half of a float.
template <class T>
__device__ void unpack(const uint4& vector, float* column) {
  const unsigned words[] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      column[i] = __uint_as_float(words[i]);
    } else if constexpr (std::is_same_v<T, half>) {
      const float2 pair = __half22float2(reinterpret_cast<const half2&>(words[i]));
      column[2 * i] = pair.x;
      column[2 * i + 1] = pair.y;
    } else {
      column[2 * i] = __uint_as_float(words[i] << 16);
      column[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000);
    }
  }
}

/// A vector of numbers, each rounded to the nearest of the type.
template <class T>
__device__ uint4 pack(const float* number) {
  uint4 vector;
#pragma unroll
  for (int i = 0; i < 16 / sizeof(T); ++i) {
    reinterpret_cast<T*>(&vector)[i] = static_cast<T>(number[i]);
  }
  return vector;
}

/// Threads of a block, if kThreads threads share a row.
template <int kThreads>
constexpr int kBlock = kThreads > 32 ? kThreads : 128;

/// Threads that an SM is to hold. Of its 65536 registers, each of 1280 can have 48, of 1024 64, of
/// 512 128. In fp32, what a thread loads fills 48. Turing has no room for more than 1024.
template <class T, int kColumns>
constexpr int threads_on_sm() {
  if (kColumns > 16) return 512;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if (sizeof(T) == 2) return 1280;
#endif
  return 1024;
}

// [kernel]
template <class T, class W, int kThreads, int kColumns>
__global__ void __launch_bounds__(  // most threads, fewest blocks per SM
    kBlock<kThreads>, threads_on_sm<T, kColumns>() / kBlock<kThreads>)
    rms_norm_residual_add(
        const uint4* x,       // (rows, vectors)  read once
        uint4* residual,      // (rows, vectors)  read once, written once
        const uint4* weight,  // (vectors)        read once a warp, or null
        uint4* y,             // (rows, vectors)  written once
        int rows, int vectors, float eps, float bias) {
  const auto row = blockIdx.x * std::int64_t{blockDim.y} + threadIdx.y;
  residual += row * vectors;  // in 64 bits: rows * hidden can exceed 2^31
  y += row * vectors;
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x + row * vectors, keep);
  const uint4* before = residual;  // for loads, which keep its lines
  before = cuda::associate_access_property(before, keep);
  const int end = row < rows ? vectors : 0;  // a place behind them idles
  const int end_of_weight = weight == nullptr ? 0 : end;
  // The kernel before this one may still write x. That is why nothing here is
  // __restrict__: it would say that x does not change while this kernel runs.
  wait_for_inputs();

  // Vectors stay as they come, four words of 32 bits, until all loads are on
  // their way. Taken apart at once, each would have to be waited for.
  constexpr int kSize = 16 / sizeof(T);          // columns of a vector
  constexpr int kVectors = kColumns / kSize;     // of a thread
  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  constexpr bool kEarly = kColumns <= 16;        // else registers run short
  uint4 u[kVectors] = {};                        // of x; zeros past the row
  uint4 v[kVectors] = {};                        // of the residual, likewise
  uint4 w[kVectors][kParts];                     // of the weight, if any
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i < end) u[k] = x[i];
    if (i < end) v[k] = before[i];
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      if (kEarly && i < end_of_weight) w[k][j] = weight[i * kParts + j];
    }
  }
  float sum[kColumns];  // of x and the residual: not rounded, in the norm
  float squares = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    float more[kSize];
    unpack<T>(u[k], sum + k * kSize);
    unpack<T>(v[k], more);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      float& value = sum[k * kSize + j];
      value += more[j];
      squares += value * value;
    }
  }
  let_next_begin();
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {  // while warps wait for each other
    const int i = threadIdx.x + k * kThreads;
    if (kEarly && i < end) residual[i] = pack<T>(sum + k * kSize);
  }
  const float mean = row_sum<kThreads>(squares) / (kSize * vectors);
  const float rstd = rsqrtf(mean + eps);
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int i = threadIdx.x + k * kThreads;
    if (i >= end) continue;
    float* const value = sum + k * kSize;
    if (!kEarly) residual[i] = pack<T>(value);
    float factor[kSize];
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      if (!kEarly && i < end_of_weight) w[k][j] = weight[i * kParts + j];
      unpack<W>(w[k][j], factor + j * kSize / kParts);
    }
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      value[j] *= rstd;
      if (weight != nullptr) value[j] *= factor[j] + bias;
    }
    y[i] = pack<T>(value);
  }
}
// [kernel]

/// A kernel, its block (the threads of a row, the rows), and the columns that a thread keeps.
struct Shape {
  decltype(&rms_norm_residual_add<float, float, 32, 16>) kernel;
  dim3 block;
  int columns;
};
constexpr int kMaxHidden = 512 * 96;

/// The first shape with room for a row, or the last.
template <class T, class W>
Shape shape_for(int hidden) {
  const Shape shapes[] = {
      {rms_norm_residual_add<T, W, 8, 16>, {8, 16}, 16},
      {rms_norm_residual_add<T, W, 32, 16>, {32, 4}, 16},
      {rms_norm_residual_add<T, W, 128, 16>, 128, 16},
      {rms_norm_residual_add<T, W, 256, 16>, 256, 16},
      {rms_norm_residual_add<T, W, 512, 16>, 512, 16},
      {rms_norm_residual_add<T, W, 1024, 16>, 1024, 16},
      {rms_norm_residual_add<T, W, 512, 96>, 512, 96},
  };
  int i = 0;
  while (i < 6 && hidden > static_cast<int>(shapes[i].block.x) * shapes[i].columns) ++i;
  return shapes[i];
}

/// The same for the problem's types.
Shape shape_for(const rmsnorm::ResidualAdd& p) {
  const bool of_fp32 = p.weight_dtype == rmsnorm::Dtype::fp32;
  if (p.dtype == rmsnorm::Dtype::fp32) return shape_for<float, float>(p.hidden);
  if (p.dtype == rmsnorm::Dtype::fp16 && of_fp32) return shape_for<half, float>(p.hidden);
  if (p.dtype == rmsnorm::Dtype::fp16) return shape_for<half, half>(p.hidden);
  if (of_fp32) return shape_for<nv_bfloat16, float>(p.hidden);
  return shape_for<nv_bfloat16, nv_bfloat16>(p.hidden);
}

std::string unsupported(const rmsnorm::ResidualAdd& p) {
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  const auto tensors = address(p.x) | address(p.residual) | address(p.weight) | address(p.y);
  if (tensors % 16 != 0 || p.hidden * std::int64_t{bytes_of(p.dtype)} % 16 != 0) {
    return "13_residual_add needs tensors and rows that begin at a multiple of 16 bytes: "
           "a 16-byte load needs a 16-byte address";
  }
  if (p.hidden <= kMaxHidden) return "";
  return "13_residual_add has room for 49152 columns: 512 threads have 128 registers each";
}

cudaError_t launch(const rmsnorm::ResidualAdd& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (error != cudaSuccess) return error;
  const Shape shape = shape_for(p);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = (p.rows - 1) / shape.block.y + 1;
  config.blockDim = shape.block;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = major >= 9 ? 1 : 0;  // Hopper
  return cudaLaunchKernelEx(
      &config, shape.kernel, static_cast<const uint4*>(p.x), static_cast<uint4*>(p.residual),
      static_cast<const uint4*>(p.weight), static_cast<uint4*>(p.y), p.rows,
      p.hidden / (16 / bytes_of(p.dtype)), p.eps, p.weight_bias);
}

/// x and the residual once, the weight once a warp; 32 bytes of it are two loads, both of all
/// sectors. The residual and y are written.
rmsnorm::Traffic traffic(const rmsnorm::ResidualAdd& p) {
  const double row = bytes_of(p.dtype) * static_cast<double>(p.hidden);
  const double parts = 1.0 * bytes_of(p.weight_dtype) / bytes_of(p.dtype);
  const double rows_of_warp = std::max(1.0, 32.0 / shape_for(p).block.x);
  const double weight = p.weight == nullptr ? 0 : row * parts * parts / rows_of_warp;
  return {.read = 2 * row + weight, .written = 2 * row};
}

/// A thread's columns one by one, then the additions of at most two warps' shuffles.
int sum_depth(const rmsnorm::ResidualAdd& p) {
  return std::min(p.hidden, shape_for(p).columns) + 5 + 5;
}

const rmsnorm::Registration<rmsnorm::ResidualAdd> lesson{{
    .slug = "13_residual_add",
    .title = "Residual add",
    .idea = "The sum with the residual and its norm in one kernel, each byte once",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
