/// \file
/// A block reads shared memory that it has not written.

#include "tests/hazards/cases.hpp"

namespace tests {
namespace {

/// A sum for each warp; the block does not have 32 of them.
template <bool kCorrect>
__global__ void all_warps(const float* x, float* y) {
  __shared__ float of_warp[32];
  const int t = threadIdx.x;
  if (t % 32 == 0) of_warp[t / 32] = x[t];
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x / 32);
  if (t < (kCorrect ? warps : 32)) y[t] = of_warp[t];  // <-- warps
}

template <bool kCorrect>
__global__ void last_element(const float* x, float* y, int columns) {
  extern __shared__ float row[];
  const int written = kCorrect ? columns : columns - 1;
  for (int i = static_cast<int>(threadIdx.x); i < written; i += static_cast<int>(blockDim.x)) {
    row[i] = x[i];
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < columns; ++i) sum += row[i];  // <-- last
  y[threadIdx.x] = sum;
}

/// Shared memory does not outlive its block.
template <class Scalar, bool kCorrect>
__global__ void first_block_only(const float* x, float* y) {
  __shared__ Scalar scale;
  if (threadIdx.x == 0 && threadIdx.y == 0 && (kCorrect || blockIdx.x == 0)) scale = x[3];
  __syncthreads();
  const unsigned t = threadIdx.y * blockDim.x + threadIdx.x;
  if (t == 20) y[blockIdx.x] = static_cast<float>(scale);  // <-- first block
}

template <bool kCorrect>
__global__ void count_from_nothing(const float* x, float* y) {
  __shared__ int counts[2];
  if (kCorrect && threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  if (x[threadIdx.x] > 4) atomicAdd(&counts[1], 1);  // <-- counted
  __syncthreads();
  if (threadIdx.x < 2 && kCorrect) y[threadIdx.x] = static_cast<float>(counts[threadIdx.x]);
}

__device__ void add_to(float* sum, float value) {
  *sum += value;  // <-- added
}

template <bool kCorrect>
__global__ void sum_from_nothing(const float* x, float* y) {
  __shared__ float sums[3][17];
  float* const own = &sums[threadIdx.y][threadIdx.x];
  if (kCorrect) *own = 0;
  for (int i = 0; i < 3; ++i) add_to(own, x[i]);
  y[threadIdx.y * 17 + threadIdx.x] = *own;
}

template <bool kCorrect>
__global__ void quarter_of_a_vector(const float* x, float* y) {
  __shared__ alignas(16) float row[8];
  const int t = threadIdx.x;
  if (t < (kCorrect ? 8 : 7)) row[t] = x[t];
  __syncthreads();
  if (t < 2)
    reinterpret_cast<float4*>(y)[t] = reinterpret_cast<const float4*>(row)[t];  // <-- vector
}

}  // namespace

std::vector<Case> unwritten_cases() {
  const std::string nobody = ", which no thread of this block has written before";
  const std::string advice = "Shared memory begins with no value: let a thread write it first";
  return {
      {.name = "a sum of a warp that the block does not have",
       .wrong = [](Memory m) { all_warps<false><<<1, 96>>>(m.x, m.y); },
       .right = [](Memory m) { all_warps<true><<<1, 96>>>(m.x, m.y); },
       .kernel = "all_warps<false>",
       .at = "warps",
       .other = "",
       .block = "0",
       .thread = "3",
       .says = {"thread 3 reads of_warp[3]" + nobody, advice}},
      {.name = "only the last element",
       .wrong = [](Memory m) { last_element<false><<<1, 33, 400>>>(m.x, m.y, 100); },
       .right = [](Memory m) { last_element<true><<<1, 33, 400>>>(m.x, m.y, 100); },
       .kernel = "last_element<false>",
       .at = "last",
       .other = "",
       .block = "0",
       .thread = "",
       .says = {" reads row[99]" + nobody, advice}},
      {.name = "only the second block, float",
       .wrong = [](Memory m) { first_block_only<float, false><<<3, dim3(8, 4)>>>(m.x, m.y); },
       .right = [](Memory m) { first_block_only<float, true><<<3, dim3(8, 4)>>>(m.x, m.y); },
       .kernel = "first_block_only<float, false>",
       .at = "first block",
       .other = "",
       .block = "1",
       .thread = "(4, 2, 0)",
       .says = {"thread 20 reads scale" + nobody, advice}},
      {.name = "only the second block, double",
       .wrong = [](Memory m) { first_block_only<double, false><<<2, 64>>>(m.x, m.y); },
       .right = [](Memory m) { first_block_only<double, true><<<2, 64>>>(m.x, m.y); },
       .kernel = "first_block_only<double, false>",
       .at = "first block",
       .other = "",
       .block = "1",
       .thread = "20",
       .says = {"thread 20 reads scale" + nobody, advice}},
      {.name = "an atomic sum without a first zero",
       .wrong = [](Memory m) { count_from_nothing<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { count_from_nothing<true><<<1, 64>>>(m.x, m.y); },
       .kernel = "count_from_nothing<false>",
       .at = "counted",
       .other = "",
       .block = "0",
       .thread = "",
       .says = {" reads counts[1]" + nobody, advice}},
      {.name = "a sum without a first zero, in a device function",
       .wrong = [](Memory m) { sum_from_nothing<false><<<1, dim3(17, 3)>>>(m.x, m.y); },
       .right = [](Memory m) { sum_from_nothing<true><<<1, dim3(17, 3)>>>(m.x, m.y); },
       .kernel = "sum_from_nothing<false>",
       .at = "added",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 reads sums[0]" + nobody, advice}},
      {.name = "a quarter of a vector",
       .wrong = [](Memory m) { quarter_of_a_vector<false><<<1, 32>>>(m.x, m.y); },
       .right = [](Memory m) { quarter_of_a_vector<true><<<1, 32>>>(m.x, m.y); },
       .kernel = "quarter_of_a_vector<false>",
       .at = "vector",
       .other = "",
       .block = "0",
       .thread = "1",
       .says = {"thread 1 reads row[4]" + nobody, advice}},
  };
}

}  // namespace tests
