/// \file
/// A block reads shared memory that it has not written.

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

/// A sum for each warp; the block does not have 32 of them.
__global__ void all_warps(const float* x, float* y, bool correct) {
  __shared__ float of_warp[32];
  const int t = threadIdx.x;
  if (t % 32 == 0) of_warp[t / 32] = x[t];
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x / 32);
  if (t < (correct ? warps : 32)) y[t] = of_warp[t];  // <-- warps
}

__global__ void last_element(const float* x, float* y, bool correct) {
  extern __shared__ float row[];
  const int columns = 100;
  const int written = correct ? columns : columns - 1;
  for (int i = static_cast<int>(threadIdx.x); i < written; i += static_cast<int>(blockDim.x)) {
    row[i] = x[i];
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < columns; ++i) sum += row[i];  // <-- last
  y[threadIdx.x] = sum;
}

/// Shared memory does not outlive its block.
template <class Scalar>
__global__ void first_block_only(const float* x, float* y, bool correct) {
  __shared__ Scalar scale;
  if (threadIdx.x == 0 && threadIdx.y == 0 && (correct || blockIdx.x == 0)) scale = x[3];
  __syncthreads();
  const unsigned t = threadIdx.y * blockDim.x + threadIdx.x;
  if (t == 20) y[blockIdx.x] = static_cast<float>(scale);  // <-- first block
}

__global__ void count_from_nothing(const float* x, float* y, bool correct) {
  __shared__ int counts[2];
  if (correct && threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  if (x[threadIdx.x] > 4) atomicAdd(&counts[1], 1);  // <-- counted
  __syncthreads();
  if (threadIdx.x < 2 && correct) y[threadIdx.x] = static_cast<float>(counts[threadIdx.x]);
}

__device__ void add_to(float* sum, float value) {
  *sum += value;  // <-- added
}

__global__ void sum_from_nothing(const float* x, float* y, bool correct) {
  __shared__ float sums[3][17];
  float* const own = &sums[threadIdx.y][threadIdx.x];
  if (correct) *own = 0;
  for (int i = 0; i < 3; ++i) add_to(own, x[i]);
  y[threadIdx.y * 17 + threadIdx.x] = *own;
}

__global__ void quarter_of_a_vector(const float* x, float* y, bool correct) {
  __shared__ alignas(16) float row[8];
  const int t = threadIdx.x;
  if (t < (correct ? 8 : 7)) row[t] = x[t];
  __syncthreads();
  if (t < 2)
    reinterpret_cast<float4*>(y)[t] = reinterpret_cast<const float4*>(row)[t];  // <-- vector
}

}  // namespace

std::vector<Case> unwritten_cases() {
  return {
      {"a sum of a warp that the block does not have", on(all_warps, {1, 96})},
      {"only the last element", on(last_element, {1, 33, 400})},
      {"only the second block", on(first_block_only<float>, {3, dim3(8, 4)})},
      {"an atomic sum without a first zero", on(count_from_nothing, {1, 64})},
      {"a sum without a first zero, in a device function", on(sum_from_nothing, {1, dim3(17, 3)})},
      {"a quarter of a vector", on(quarter_of_a_vector, {1, 32})},
  };
}

}  // namespace tests
