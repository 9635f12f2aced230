// Lesson 11 - Any tensor
// Changed    rows lie anywhere: any length, stride and address; two tensors share a launch.
// Unchanged  a row in registers in vectors of 16 bytes, loads first, fp32 sums, one barrier.
// Expect     the speed of lesson 10 for every hidden: no row goes element by element.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "lessons/11_any_tensor/any_tensor.hpp"
#include "lessons/11_any_tensor/row.cuh"

namespace {

using namespace rmsnorm::any_tensor;
using rmsnorm::Dtype;

constexpr int kShortRows = 256;  // threads of a block in which a row has a warp or less

// [kernel]
/// A row has blockDim.x threads, a block blockDim.y rows. The first blocks are
/// those of tensors[0].
template <class T, class W, int kVectors, bool kInWarp, bool kAligned>
__global__ void __launch_bounds__(kInWarp ? kShortRows : 1024)
    rms_norm_any_tensor(const __grid_constant__ Operation op, unsigned first_blocks) {
  const bool is_second = blockIdx.x >= first_blocks;
  const Tensor& tensor = op.tensors[is_second];
  const std::int64_t block = blockIdx.x - (is_second ? first_blocks : 0);
  const std::int64_t row = block * blockDim.y + threadIdx.y;
  const int hidden = row < tensor.rows ? op.hidden : 0;  // 0: a place to spare
  const auto* const x = find<const T>(tensor.x, row, tensor);
  auto* const y = find<T>(tensor.y, row, tensor);
  const auto* const weight = static_cast<const W*>(tensor.weight);

  // Vectors are those of y's memory: the first may begin before the row.
  const int shift = kAligned ? 0 : reinterpret_cast<std::uintptr_t>(y) % 16 / sizeof(T);
  const int first = threadIdx.x * kSize<T> - shift;  // column
  const int step = blockDim.x * kSize<T>;
  const int chunk = kVectors * step;  // what the registers hold of the row
  const int last = (hidden + shift - 1) / chunk * chunk;

  uint4 v[kVectors];
  const auto load_x = [&](int begin) {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      v[k] = load<kAligned>(x, begin + first + k * step, hidden);
    }
  };
  constexpr int kParts = sizeof(W) / sizeof(T);    // vectors of weight for one of x
  constexpr bool kEarly = kVectors * kParts <= 4;  // there are registers for them
  uint4 w[kEarly ? kVectors : 1][kParts];
  const auto load_weight = [&](uint4(&part)[kParts], int col) {
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      part[i] = weight == nullptr ? ones<W>() : load<kAligned>(weight, col + i * kSize<W>, hidden);
    }
  };
  const auto load_weights = [&](int begin) {
#pragma unroll
    for (int k = 0; kEarly && k < kVectors; ++k) {
      load_weight(w[k], begin + first + k * step);
    }
  };

  // The first chunk stays. All others, if there are any, are loaded again.
  float sum = 0;
  for (int begin = last; begin >= 0; begin -= chunk) {
    load_x(begin);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) sum += squares<T>(v[k]);
  }
  load_weights(0);
  const float rstd = rsqrtf(row_sum<kInWarp>(sum) / op.hidden + op.eps);
  for (int begin = 0; begin <= last; begin += chunk) {
    if (begin > 0) {
      load_x(begin);
      load_weights(begin);
    }
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      const int col = begin + first + k * step;
      if (!kEarly) load_weight(w[0], col);
      const auto& factors = w[kEarly ? k : 0];
      store<kAligned>(y, col, hidden, scaled<T, W>(v[k], rstd, factors, op.weight_bias));
    }
  }
}
// [kernel]

/// How threads share a row, and rows a block.
struct Shape {
  int threads;  ///< of a row
  int vectors;  ///< of a thread, at a time
  int rows;     ///< of a block
};

/// For rows of so many vectors.
Shape shape_for(int vectors) {
  for (const int own : {1, 2, 4}) {
    const int lanes = std::bit_ceil((vectors - 1u) / own + 1);
    if (lanes <= 32) return {lanes, own, kShortRows / lanes};
  }
  const int own = vectors <= 2048 ? 2 : vectors <= 4096 ? 4 : 8;
  const int warps = (vectors - 1) / own / 32 + 1;
  return {std::min(warps * 32, 1024), own, 1};
}

template <class T, class W, bool kAligned>
auto kernel_for(const Shape& shape) {
  switch (shape.threads <= 32 ? -shape.vectors : shape.vectors) {
    case -1:
      return rms_norm_any_tensor<T, W, 1, true, kAligned>;
    case -2:
      return rms_norm_any_tensor<T, W, 2, true, kAligned>;
    case -4:
      return rms_norm_any_tensor<T, W, 4, true, kAligned>;
    case 2:
      return rms_norm_any_tensor<T, W, 2, false, kAligned>;
    case 4:
      return rms_norm_any_tensor<T, W, 4, false, kAligned>;
    default:
      return rms_norm_any_tensor<T, W, 8, false, kAligned>;
  }
}

template <class T, class W>
cudaError_t launch_as(const Operation& op, cudaStream_t stream) {
  const bool aligned = is_aligned(op, sizeof(T));
  const int shift = aligned ? 0 : kSize<T> - 1;  // at most
  const Shape shape = shape_for((op.hidden + shift - 1) / kSize<T> + 1);
  const auto kernel = aligned ? kernel_for<T, W, true>(shape) : kernel_for<T, W, false>(shape);
  const std::int64_t first = (op.tensors[0].rows + shape.rows - 1) / shape.rows;
  const std::int64_t blocks = first + (op.tensors[1].rows + shape.rows - 1) / shape.rows;
  if (blocks == 0) return cudaSuccess;  // a grid of no blocks is an error
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  kernel<<<blocks, dim3(shape.threads, shape.rows), 0, stream>>>(op, first);
  return cudaGetLastError();
}

}  // namespace

cudaError_t rmsnorm::any_tensor::launch(const Operation& op, cudaStream_t stream) {
  const bool same = op.weight_dtype == op.dtype;
  if (op.dtype == Dtype::fp32) return launch_as<float, float>(op, stream);
  if (op.dtype == Dtype::fp16) {
    return same ? launch_as<__half, __half>(op, stream) : launch_as<__half, float>(op, stream);
  }
  return same ? launch_as<__nv_bfloat16, __nv_bfloat16>(op, stream)
              : launch_as<__nv_bfloat16, float>(op, stream);
}

namespace {

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  const std::int64_t stride = p.hidden * std::int64_t{sizeof(float)};
  const Tensor tensor{
      {const_cast<float*>(p.x), 0, stride}, {p.y, 0, stride}, p.weight, p.rows, p.rows};
  const Operation op{{tensor, {}}, p.hidden, Dtype::fp32, Dtype::fp32, p.eps, 0};
  return rmsnorm::any_tensor::launch(op, stream);
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 8.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return 8 + hidden / 4096 + 10;
}

const rmsnorm::Registration lesson{{
    .slug = "11_any_tensor",
    .title = "Any tensor",
    .idea = "Rows of any length, stride and address at the speed of aligned ones",
    .regime = "heads",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
