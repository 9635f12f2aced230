// Mutant: adds up the sums of all rows that share a warp
// Lesson 07, with 8 lanes a row and single floats; the mistake is marked.
#include <cstdint>

#include "common/contract/lesson.hpp"

namespace {

constexpr int kLanes = 8;  // share a row
constexpr int kRows = 16;  // share a block

/// Sum over groups of kLanes neighbouring lanes. Every lane gets its group's.
__device__ float group_sum(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {  // <-- mistake
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

__global__ void rms_norm_multi_row(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int rows,
    int hidden, float eps) {
  const int place = threadIdx.x / kLanes;
  const int thread = threadIdx.x % kLanes;
  const std::int64_t row = blockIdx.x * std::int64_t{kRows} + place;
  x += row * hidden;
  y += row * hidden;
  const int end = row < rows ? hidden : 0;

  float sum = 0;
  for (int col = thread; col < end; col += kLanes) {
    sum += x[col] * x[col];
  }
  const float rstd = rsqrtf(group_sum(sum) / hidden + eps);
  for (int col = thread; col < end; col += kLanes) {
    y[col] = x[col] * rstd * weight[col];
  }
}

cudaError_t launch(const rmsnorm::Problem& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  const int blocks = (p.rows - 1) / kRows + 1;
  rms_norm_multi_row<<<blocks, kRows * kLanes, 0, stream>>>(
      p.x, p.weight, p.y, p.rows, p.hidden, p.eps);
  return cudaGetLastError();
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 12.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return (hidden - 1) / kLanes + 1 + 3;
}

const rmsnorm::Registration mutant{{
    .slug = "mutant/mixes_rows",
    .title = "Mutant",
    .idea = "Adds up the sums of all rows that share a warp",
    .regime = "",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
