// Lesson 11 - Any tensor
// Changed    rows lie anywhere: any length, stride and address; two tensors share a launch.
// Unchanged  a row in registers in vectors of 16 bytes, loads first, fp32 sums, one barrier.
// Expect     the speed of lesson 10 for every hidden: no row goes element by element.
#include <algorithm>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "lessons/11_any_tensor/any_tensor.hpp"
#include "lessons/11_any_tensor/row.cuh"

namespace {

using namespace rmsnorm::any_tensor;
using rmsnorm::Dtype;

/// Sum over groups of neighbouring lanes. Every lane gets its group's.
__device__ float group_sum(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// Sum over the blockDim.x threads of a row, which has a warp or less, or a whole block.
template <bool kInWarp>
__device__ float row_sum(float value) {
  if constexpr (kInWarp) {
    return group_sum(value, blockDim.x);
  } else {
    __shared__ float partial[32];
    const int lane = threadIdx.x % 32;
    value = group_sum(value, 32);
    if (lane == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();  // every warp's sum is in partial[]
    return group_sum(lane < blockDim.x / 32 ? partial[lane] : 0, 32);
  }
}

// [kernel]
/// A row has blockDim.x threads, a block blockDim.y rows. The first blocks are
/// those of tensors[0]. A row's last chunk begins at column `last`.
template <class T, class W, int kVectors, bool kInWarp, bool kAligned>
__global__ void __launch_bounds__(kInWarp ? kShortRows : 1024)
    rms_norm_any_tensor(const __grid_constant__ Operation op, unsigned first_blocks, int last) {
  const bool is_second = blockIdx.x >= first_blocks;
  const Tensor& tensor = op.tensors[is_second];
  const std::int64_t block = blockIdx.x - (is_second ? first_blocks : 0);
  const std::int64_t row = block * blockDim.y + threadIdx.y;
  const int hidden = row < tensor.rows ? op.hidden : 0;  // 0: a place to spare
  const Place place = place_of(row, tensor);
  const auto* const weight = static_cast<const W*>(tensor.weight);
  auto* const y = find<T>(tensor.y, place);
  const auto* const x = cuda::associate_access_property(
      find<const T>(tensor.x, place), cuda::access_property::persisting());

  // Vectors are those of y's memory: the first may begin before the row.
  const int shift = kAligned ? 0 : reinterpret_cast<std::uintptr_t>(y) % 16 / sizeof(T);
  const int first = threadIdx.x * kSize<T> - shift;  // column
  const int step = blockDim.x * kSize<T>;
  const int chunk = kVectors * step;  // what the registers hold of the row

  uint4 v[kVectors];
  const auto load_x = [&](int begin) {
    const auto column = [&](int k) { return begin + first + k * step; };
    load<kAligned>(v, x, hidden, column, [](const uint4* p) { return *p; });
  };
  constexpr int kParts = sizeof(W) / sizeof(T);  // vectors of weight for one of x
  constexpr int kRoom = (kVectors < 8 ? 4 : 2) / kParts;
  constexpr int kHeld = kVectors < kRoom ? kVectors : kRoom;  // with their weight
  uint4 w[kHeld * kParts];
  const auto load_weight = [&](int begin) {
    const auto column = [&](int i) {
      return begin + first + i / kParts * step + i % kParts * kSize<W>;
    };
    if (weight != nullptr) {
      load<kAligned>(w, weight, hidden, column, [](const uint4* p) { return __ldg(p); });
    } else {
      for (uint4& factors : w) factors = ones<W>();
    }
  };
  float sum = 0;
  const auto add_squares = [&] {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) sum += squares<T>(v[k]);
  };

  // The first chunk stays. Of a longer row, the others are loaded again.
  for (int begin = last; begin > 0; begin -= chunk) {
    load_x(begin);
    add_squares();
  }
  load_x(0);
  load_weight(0);
  add_squares();
  const float rstd = rsqrtf(row_sum<kInWarp>(sum) / op.hidden + op.eps);
  for (int begin = 0; begin <= last; begin += chunk) {
    if (begin > 0) load_x(begin);
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      if (k % kHeld == 0 && (begin > 0 || k > 0)) load_weight(begin + k * step);
      const uint4* const factors = &w[k % kHeld * kParts];
      const uint4 result = scaled<T, W>(v[k], rstd, factors, op.weight_bias);
      store<kAligned>(y, begin + first + k * step, hidden, result);
    }
  }
}
// [kernel]

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
  const int chunk = shape.threads * shape.vectors * kSize<T>;
  const int last = (op.hidden + shift - 1) / chunk * chunk;
  kernel<<<blocks, dim3(shape.threads, shape.rows), 0, stream>>>(op, first, last);
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
