// Exercise 11 - Any tensor
// Given      vectors that begin with the row: two loads for each, and stores of single elements.
// Goal       x crosses global memory once but for a row's ends, and at most 90 requests a row.
// Within     the kernel for aligned rows stays as it is.
// Check it   ./rmsnorm exercise 11
#include <bit>
#include <cstdint>
#include <cuda/annotated_ptr>

#include "lessons/11_any_tensor/plan.hpp"
#include "lessons/11_any_tensor/row.cuh"

namespace {

using namespace rmsnorm::any_tensor;

/// Sum over groups of neighbouring lanes. Every lane gets its group's.
__device__ float group_sum(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// Sum over the blockDim.x threads of a row: a part of a warp, or a block. Every thread gets it.
template <bool kInWarp>
__device__ float row_sum(float value) {
  if constexpr (kInWarp) {
    return group_sum(value, blockDim.x);  // no barrier
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
/// A row has blockDim.x threads, and a block blockDim.y rows.
template <class T, class W, int kVectors, bool kInWarp, bool kAligned>
__global__ void __launch_bounds__(kBlock<kInWarp>) rms_norm_any_tensor(
    const __grid_constant__ Operation op,
    unsigned first_blocks,  // of op.tensors[0]; [1] has the others
    int last) {             // column at which a row's last chunk begins
  const bool is_second = blockIdx.x >= first_blocks;
  const Tensor& tensor = op.tensors[is_second];
  const std::int64_t block = blockIdx.x - (is_second ? first_blocks : 0);
  const std::int64_t row = block * blockDim.y + threadIdx.y;
  const int hidden = row < tensor.rows ? op.hidden : 0;  // 0: none is left
  const Place place = place_of(row, tensor);
  auto* const y = find<T>(tensor.y, place);
  const auto* const x = cuda::associate_access_property(
      find<const T>(tensor.x, place), cuda::access_property::persisting());
  const auto* const weight = static_cast<const W*>(tensor.weight);

  // >>> your turn
  // Vectors begin with the row, wherever that is.
  const int shift = 0;  // elements of the first vector that lie before the row
  // <<<
  const int first = threadIdx.x * kSize<T> - shift;  // column
  const int step = blockDim.x * kSize<T>;
  const int chunk = kVectors * step;  // what the registers hold of the row

  uint4 v[kVectors];
  float sum = 0;
  const auto load_x = [&](int begin) {
    load<kAligned, false, 1>(v, x, hidden, begin + first, step);
  };
  const auto add_squares = [&] {
#pragma unroll
    for (int k = 0; k < kVectors; ++k) sum += squares<T>(v[k]);
  };
  constexpr int kParts = sizeof(W) / sizeof(T);  // of weight, for one of x
  constexpr int kRoom = (kVectors < 8 ? 4 : 2) / kParts;
  constexpr int kHeld = kVectors < kRoom ? kVectors : kRoom;  // with weight
  uint4 w[kHeld * kParts];
  const auto load_weight = [&](int begin) {
    if (weight != nullptr) {
      load<kAligned, true, kParts>(w, weight, hidden, begin + first, step);
    } else {
      for (uint4& factors : w) factors = ones<W>();
    }
  };

  // The first chunk stays. The others of a longer row are loaded again.
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
      const int to = begin + k * step;
      if (k % kHeld == 0 && to > 0) load_weight(to);
      const uint4* const factors = &w[k % kHeld * kParts];
      const uint4 n = scaled<T, W>(v[k], rstd, factors, op.weight_bias);
      store<kAligned>(y, to + first, hidden, n);
    }
  }
}
// [kernel]

template <class T, class W, bool kAligned>
auto kernel_for(const Shape& shape) {
  const bool in_warp = shape.threads <= 32;
  if (shape.vectors == 1) return rms_norm_any_tensor<T, W, 1, true, kAligned>;
  if (shape.vectors == 8) return rms_norm_any_tensor<T, W, 8, false, kAligned>;
  if (shape.vectors == 2 && in_warp) return rms_norm_any_tensor<T, W, 2, true, kAligned>;
  if (shape.vectors == 2) return rms_norm_any_tensor<T, W, 2, false, kAligned>;
  if (in_warp) return rms_norm_any_tensor<T, W, 4, true, kAligned>;
  return rms_norm_any_tensor<T, W, 4, false, kAligned>;
}

template <class T, class W>
cudaError_t launch_as(const Operation& op, cudaStream_t stream) {
  const Plan plan = plan_for(op, sizeof(T));
  if (plan.blocks == 0) return cudaSuccess;  // a grid of no blocks is an error
  if (plan.blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  const auto find_kernel = plan.aligned ? kernel_for<T, W, true> : kernel_for<T, W, false>;
  const dim3 block(plan.shape.threads, plan.shape.rows);
  find_kernel(plan.shape)<<<plan.blocks, block, 0, stream>>>(op, plan.first_blocks, plan.last);
  return cudaGetLastError();
}

const rmsnorm::Registration lesson{{
    .slug = "11_any_tensor",
    .title = "Any tensor",
    .idea = "Rows of any length, stride and address, at the speed of aligned ones",
    .regime = "heads",
    .launch = launch_problem,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace

cudaError_t rmsnorm::any_tensor::launch(const Operation& op, cudaStream_t stream) {
  const auto launch = [&]<class T>(T) {
    const bool is_same = op.weight_dtype == op.dtype;
    return is_same ? launch_as<T, T>(op, stream) : launch_as<T, float>(op, stream);
  };
  if (op.dtype == Dtype::fp32) return launch(float());
  if (op.dtype == Dtype::fp16) return launch(__half());
  return launch(__nv_bfloat16());
}
