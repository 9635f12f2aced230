// Lesson 14 - Backward
// Changed    gradients: a sum along each row for dx, one down each column for dweight.
// Unchanged  a row in registers, vectors of 16 bytes, fp32 arithmetic, loads evict_last.
// Expect     less time than two passes over x and dy; the same bits in every run.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "common/operations/backward.hpp"

namespace {

using rmsnorm::Backward;
using rmsnorm::Dtype;

constexpr int kMaxThreads = 512;  // of a block: each can have 128 registers
constexpr int kMaxColumns = 16;   // of a row, that a thread keeps: so many take all of them

/// One of a vector's elements.
template <class T>
__device__ T& element(uint4& vector, int e) {
  return reinterpret_cast<T*>(&vector)[e];
}

/// The factors of a vector's columns: weight and bias, or 1 without a weight.
template <class W, int kSize>
__device__ void load_factors(float (&factor)[kSize], const uint4* weight, int vector, float bias) {
  constexpr int kPart = 16 / sizeof(W);  // columns of a vector of the weight
#pragma unroll
  for (int i = 0; i < kSize; i += kPart) {
    uint4 w = {};
    if (weight != nullptr) w = weight[(vector * kSize + i) / kPart];
#pragma unroll
    for (int e = 0; e < kPart; ++e) {
      factor[i + e] = weight == nullptr ? 1 : static_cast<float>(element<W>(w, e)) + bias;
    }
  }
}

/// Sum over groups of neighbouring lanes. Every lane gets its group's.
__device__ float group_sum(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// Sum over the blockDim.x threads of a row: lanes of a warp, or a block. Every thread gets it.
/// Two calls in a row have different turns, 0 and 1.
__device__ float row_sum(float value, int turn) {
  if (blockDim.x <= 32) return group_sum(value, blockDim.x);  // no barrier
  __shared__ float partial[2][32];
  const int lane = threadIdx.x % 32;
  value = group_sum(value, 32);
  if (lane == 0) partial[turn][threadIdx.x / 32] = value;
  __syncthreads();  // every warp's sum is in partial[turn]
  return group_sum(lane < blockDim.x / 32 ? partial[turn][lane] : 0, 32);
}

/// Adds up what each of the rows that a block has at a time, its blockDim.y places, has of (hidden)
/// sums, in the order of the places, and stores it. All threads of the block call it.
__device__ void add_places(const float* of_place, float* sums, int hidden) {
  __syncthreads();  // the sums of all places are in of_place
  const int threads = blockDim.x * blockDim.y;
  for (int col = threadIdx.y * blockDim.x + threadIdx.x; col < hidden; col += threads) {
    float sum = 0;
    for (int place = 0; place < blockDim.y; ++place) sum += of_place[place * hidden + col];
    sums[col] = sum;
  }
}

// [kernel]
/// n = x * rstd, g = dy * (weight + bias). Blocks take rows in turn, each
/// blockDim.y at a time. These places have blockDim.x threads each.
template <class T, class W, int kVectors>
__global__ void __launch_bounds__(  // most threads, fewest blocks per SM
    kMaxThreads, kVectors == 1 ? 2 : 1)
    rms_norm_backward(
        const uint4* x,                    // (rows, vectors)   read once
        const uint4* dy,                   // (rows, vectors)   read once
        const float* __restrict__ rstd,    // (rows)            once a warp
        const uint4* __restrict__ weight,  // (vectors)         once a block
        uint4* __restrict__ dx,            // (rows, vectors)   written once
        float* __restrict__ partial_sums,  // (blocks, hidden)  written once
        int rows, int vectors, float bias) {
  constexpr int kSize = 16 / sizeof(T);  // columns of a vector
  const auto vector = [](int k) { return threadIdx.x + k * int(blockDim.x); };
  const auto keep = cuda::access_property::persisting();  // = evict_last
  x = cuda::associate_access_property(x, keep);
  dy = cuda::associate_access_property(dy, keep);
  const std::int64_t first = blockIdx.x * blockDim.y + threadIdx.y;
  const int step = gridDim.x * blockDim.y;  // rows of all blocks at a time

  float factor[kVectors][kSize] = {};  // the same for all rows
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (vector(k) >= vectors) continue;
    load_factors<W>(factor[k], weight, vector(k), bias);
  }
  // A row is loaded while the one before it is used. Few blocks stay long:
  // nobody else has bytes in flight while one of them waits.
  uint4 next_x[kVectors], next_dy[kVectors];
  float next_rstd;
  const auto load = [&](std::int64_t row) {  // zeros where nothing is
    next_rstd = row < rows ? rstd[row] : 0;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      next_x[k] = next_dy[k] = uint4{};
      if (row >= rows || vector(k) >= vectors) continue;
      next_x[k] = x[row * vectors + vector(k)];
      next_dy[k] = dy[row * vectors + vector(k)];
    }
  };
  load(first);

  float dw[kVectors][kSize] = {};  // dweight, of this place's rows
  int turn = 0;
  // row - threadIdx.y is the row of place 0. While that exists, no thread
  // leaves, not even where a place has none: shuffles and barriers need all.
  for (std::int64_t row = first; row < rows + threadIdx.y; row += step) {
    float sum = 0, n[kVectors][kSize], g[kVectors][kSize];
    const float r = next_rstd;
#pragma unroll
    for (int i = 0; i < kVectors * kSize; ++i) {
      const int k = i / kSize, e = i % kSize;
      const float d = float(element<T>(next_dy[k], e));
      n[k][e] = float(element<T>(next_x[k], e)) * r;
      g[k][e] = d * factor[k][e];
      sum += g[k][e] * n[k][e];
      dw[k][e] += d * n[k][e];
    }
    load(row + step);  // while this row is added up
    const float mean = row_sum(sum, turn) / (kSize * vectors);
    turn = 1 - turn;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      uint4 out;
#pragma unroll
      for (int e = 0; e < kSize; ++e) {
        element<T>(out, e) = T(r * (g[k][e] - n[k][e] * mean));
      }
      if (row >= rows || vector(k) >= vectors) continue;
      dx[row * vectors + vector(k)] = out;
    }
  }
  if (partial_sums == nullptr) return;  // nobody wants dweight

  extern __shared__ float of_place[];  // (blockDim.y, hidden)
  const int hidden = kSize * vectors;
  partial_sums += blockIdx.x * std::int64_t{hidden};
  // Of one place, they are the block's. Else they meet in shared memory.
  auto* to = blockDim.y == 1 ? partial_sums : of_place + threadIdx.y * hidden;
#pragma unroll
  for (int i = 0; i < kVectors * kSize; i += 4) {
    const int k = i / kSize, e = i % kSize;
    if (vector(k) >= vectors) continue;
    reinterpret_cast<float4*>(to + vector(k) * kSize)[e / 4] =
        make_float4(dw[k][e], dw[k][e + 1], dw[k][e + 2], dw[k][e + 3]);
  }
  if (blockDim.y > 1) add_places(of_place, partial_sums, hidden);
}
// [kernel]

// [add_partial_sums]
/// Adds up the blocks' partial sums and rounds once. A warp has every 32nd of
/// them, of 32 columns, whichever block was first to store one.
template <class W>
__global__ void add_partial_sums(
    const float* __restrict__ partial_sums,  // (blocks, hidden)  read once
    W* __restrict__ dweight,                 // (hidden)          written once
    int blocks, int hidden) {
  const int col = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
#pragma unroll 8
  for (int i = threadIdx.y; i < blocks; i += 32) {
    if (col < hidden) sum += partial_sums[i * std::int64_t{hidden} + col];
  }
  __shared__ float of_warp[32][32];
  of_warp[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();  // every warp's sums are in of_warp
  if (threadIdx.y > 0 || col >= hidden) return;
  for (int warp = 1; warp < 32; ++warp) sum += of_warp[warp][threadIdx.x];
  dweight[col] = static_cast<W>(sum);
}
// [add_partial_sums]

/// How threads share a problem. Nothing here asks for the GPU: its sums have to be the same on
/// every one.
struct Shape {
  int vectors;  // of a row, that a thread keeps
  int threads;  // of a row
  int places;   // rows that a block has at a time
  int turns;    // rows that a place has at most, one after the other
  int blocks;   // together they have all rows
};

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

Shape shape_for(const Backward& p) {
  const int vectors = p.hidden / (16 / bytes_of(p.dtype));
  // One vector for each thread; more where a warp or a block can then keep the row.
  const int needed = static_cast<int>(divide_up(vectors, kMaxThreads));
  Shape shape{};
  shape.vectors = vectors > 32 && vectors <= 64 ? 2 : needed;
  const auto threads = static_cast<unsigned>(divide_up(vectors, shape.vectors));
  shape.threads = static_cast<int>(std::max(8u, std::bit_ceil(threads)));
  shape.places = shape.threads <= 32 ? kMaxThreads / shape.threads : 1;

  constexpr int kGridThreads = 1 << 17;     // about half of what the largest GPUs have at a time
  constexpr std::int64_t kFewestTurns = 4;  // else partial sums cost more than rows
  const int blocks = kGridThreads / (shape.threads * shape.places);
  const std::int64_t needed_turns = divide_up(divide_up(p.rows, blocks), shape.places);
  const std::int64_t turns = std::max(kFewestTurns, needed_turns);
  shape.turns = static_cast<int>(turns);
  shape.blocks = static_cast<int>(divide_up(p.rows, turns * shape.places));
  return shape;
}

std::string unsupported(const Backward& p) {
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  const auto tensors = address(p.x) | address(p.dy) | address(p.weight) | address(p.dx);
  const std::int64_t bytes = p.hidden * std::int64_t{bytes_of(p.dtype)};  // of a row
  if (tensors % 16 != 0 || bytes % 16 != 0) {
    return "14_backward needs tensors and rows that begin at a multiple of 16 bytes: a 16-byte "
           "load needs a 16-byte address";
  }
  if (p.hidden <= kMaxColumns * kMaxThreads) return "";
  return "14_backward has room for 8192 columns: 512 threads have 128 registers each";
}

/// Launches the kernels for these types. The workspace holds the partial sums.
template <class T, class W>
cudaError_t launch_for(const Backward& p, cudaStream_t stream) {
  constexpr int kMost = kMaxColumns * sizeof(T) / 16;  // vectors of a thread: 4, or 2
  constexpr decltype(&rms_norm_backward<T, W, 1>) kKernels[] = {
      rms_norm_backward<T, W, 1>, rms_norm_backward<T, W, 2>,
      rms_norm_backward<T, W, std::min(3, kMost)>, rms_norm_backward<T, W, kMost>};
  const Shape shape = shape_for(p);
  auto* const partial_sums = static_cast<float*>(p.dweight == nullptr ? nullptr : p.workspace);
  if (p.rows > 0) {  // a grid of no blocks is an error
    const auto kernel = kKernels[shape.vectors - 1];
    const std::size_t bytes = shape.places > 1 ? shape.places * p.hidden * sizeof(float) : 0;
    kernel<<<shape.blocks, dim3(shape.threads, shape.places), bytes, stream>>>(
        static_cast<const uint4*>(p.x), static_cast<const uint4*>(p.dy), p.rstd,
        static_cast<const uint4*>(p.weight), static_cast<uint4*>(p.dx), partial_sums, p.rows,
        static_cast<int>(p.hidden * sizeof(T) / 16), p.weight_bias);
  }
  if (p.dweight != nullptr) {
    add_partial_sums<W><<<divide_up(p.hidden, 32), dim3(32, 32), 0, stream>>>(
        partial_sums, static_cast<W*>(p.dweight), shape.blocks, p.hidden);
  }
  return cudaGetLastError();
}

cudaError_t launch(const Backward& p, cudaStream_t stream) {
  const bool of_fp32 = p.weight_dtype == Dtype::fp32;
  if (p.dtype == Dtype::fp32) return launch_for<float, float>(p, stream);
  if (p.dtype == Dtype::fp16 && of_fp32) return launch_for<half, float>(p, stream);
  if (p.dtype == Dtype::fp16) return launch_for<half, half>(p, stream);
  if (of_fp32) return launch_for<nv_bfloat16, float>(p, stream);
  return launch_for<nv_bfloat16, nv_bfloat16>(p, stream);
}

std::size_t workspace_bytes(const Backward& p) {
  return sizeof(float) * shape_for(p).blocks * p.hidden;
}

/// A row costs x, dy and dx; a block costs the weight, and its partial sums of dweight, which are
/// written, and read once more.
rmsnorm::Traffic traffic(const Backward& p) {
  const Shape shape = shape_for(p);
  const double row = 1.0 * p.hidden * bytes_of(p.dtype), rows = std::max(1, p.rows);
  // Beside a vector of 8 columns, those of fp32 are two: either half touches the sectors of both.
  const double halves = bytes_of(Dtype::fp32) / bytes_of(p.dtype);
  const double rstd = shape.threads;  // a sector a warp
  const double warps_with_all = shape.places > 1 ? kMaxThreads / 32 : 1;
  double weight = p.weight == nullptr ? 0 : warps_with_all * p.hidden * bytes_of(p.weight_dtype);
  if (p.weight_dtype == Dtype::fp32) weight *= halves;
  rmsnorm::Traffic result{.read = 2 * row + rstd + shape.blocks / rows * weight, .written = row};
  if (p.dweight != nullptr) {
    const double partial_sums = shape.blocks / rows * p.hidden * 4;
    result.read += partial_sums;
    result.written += partial_sums * (shape.places > 1 ? 1 : halves);
    result.written += p.hidden * bytes_of(p.weight_dtype) / rows;
  }
  return result;
}

/// Along a row, a thread's own additions, then those of two warps' shuffles. Down a column, those
/// of a thread, of the rows that a block has at a time, of every 32nd block, and of 32 warps.
rmsnorm::SumDepth sum_depth(const Backward& p) {
  const Shape shape = shape_for(p);
  const auto every_32nd = static_cast<int>(divide_up(shape.blocks, 32));
  return {
      shape.vectors * 16 / bytes_of(p.dtype) + 5 + 5, shape.turns + shape.places + every_32nd + 32};
}

const rmsnorm::Registration<rmsnorm::Backward> lesson{{
    .slug = "14_backward",
    .title = "Backward",
    .idea = "Both gradients in one pass over x and dy, and the same bits in every run",
    .regime = "backward",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
    .workspace_bytes = workspace_bytes,
}};

}  // namespace
