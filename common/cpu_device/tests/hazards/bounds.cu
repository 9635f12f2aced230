/// \file
/// Accesses before the start and past the end.

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

template <int kThreads>
__global__ void static_past_end(const float* x, float* y, bool correct) {
  __shared__ float staged[kThreads];
  staged[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kThreads + (correct ? 0 : 1); ++i) sum += staged[i];  // <-- static past
  y[threadIdx.x] = sum;
}

__global__ void static_before_start(const float* x, float* y, bool correct) {
  __shared__ double staged[40];
  const int t = threadIdx.x;
  staged[t] = x[t];
  __syncthreads();
  if (!correct || t > 0) y[t] = static_cast<float>(staged[t - 1]);  // <-- static before
}

/// The columns of a tile are one too few for the skewed index.
__global__ void tile(const float* x, float* y, bool correct) {
  __shared__ float columns[4][9];
  const unsigned i = threadIdx.x + (correct ? 0 : threadIdx.y);
  columns[threadIdx.y][i] = x[i];  // <-- tile
  __syncthreads();
  y[threadIdx.y * 9 + threadIdx.x] = columns[threadIdx.y][threadIdx.x];
}

template <class Scalar>
__device__ void store(Scalar* row, int i, Scalar value) {
  row[i] = value;  // <-- stored
}

struct alignas(16) Four {
  float number[4];
};

/// More than a compiler takes into two callers of its own accord. g++ reports no store of what a
/// call returns.
__device__ Four powers(float x) {
  Four all;
  for (float& number : all.number) {
    for (int i = 0; i < 20; ++i) x = x < 1 ? sqrtf(x * x + 0.5f) : rsqrtf(x + 0.25f) - x / 3;
    number = x;
  }
  return all;
}

__global__ void returned(const float* x, float* y, bool correct) {
  const int i = threadIdx.x;
  auto* const fours = reinterpret_cast<Four*>(y);
  if (i < 250) fours[i] = powers(x[i]);
  if (i >= 250 && !correct) fours[i] = powers(x[i] + 1);  // <-- returned
}

template <class Scalar>
__global__ void dynamic_row(const float* x, float* y, bool) {
  extern __shared__ char memory[];
  auto* const row = reinterpret_cast<Scalar*>(memory);
  const int t = static_cast<int>(threadIdx.x);
  store<Scalar>(row, t, x[t]);
  y[t] = static_cast<float>(row[t]);
}

/// 4 MB past the end: where nothing of shared memory is any more.
__global__ void dynamic_far(const float* x, float* y, bool correct) {
  extern __shared__ float row[];
  const int t = threadIdx.x;
  row[correct ? t : t << 20] = x[t];  // <-- dynamic far
  y[t] = row[correct ? t : t << 20];
}

/// The grid has more threads than the tensor elements.
__global__ void global_past_end(const float* x, float* y, bool correct) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (!correct || i < Memory::kElements) y[i] = 2 * x[i % Memory::kElements];  // <-- global past
}

/// Behind x lies guard memory that the process could read.
__global__ void read_next(const float* x, float* y, bool correct) {
  for (int i = static_cast<int>(threadIdx.x); i < Memory::kElements;
       i += static_cast<int>(blockDim.x)) {
    const float next = !correct || i + 1 < Memory::kElements ? x[i + 1] : 0;  // <-- next
    y[i] = next - x[i];
  }
}

__global__ void read_previous(const float* x, float* y, bool correct) {
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (!correct || i > 0) y[i] = x[i - 1];  // <-- previous
}

/// A row of 1002 elements has 250 vectors and a half.
__global__ void half_vector(const float* x, float* y, bool correct) {
  const float4* const vectors = reinterpret_cast<const float4*>(x);
  const int count = correct ? Memory::kElements / 4 : (Memory::kElements + 3) / 4;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const float4 v = vectors[i];  // <-- half vector
    y[i] = v.x + v.y + v.z + v.w;
  }
}

__global__ void rows_too_wide(const float* x, float* y, bool correct) {
  const long long columns = correct ? 10 : 1 << 24;
  const unsigned t = threadIdx.x;
  y[blockIdx.x * blockDim.x + t] = x[blockIdx.x * columns + t];  // <-- wide
}

__global__ void copy(const float* x, float* y, bool correct) {
  const float* const from = correct ? x : nullptr;
  y[threadIdx.x] = from[threadIdx.x];  // <-- null
}

/// The launch of a kernel with dynamic memory of so many bytes, or of a double for each thread.
std::function<void(Memory, bool)> dynamic(Kernel kernel, unsigned threads, std::size_t bytes) {
  return [=](Memory m, bool correct) {
    on(kernel, {1, threads, correct ? sizeof(double) * threads : bytes})(m, correct);
  };
}

}  // namespace

std::vector<Case> bounds_cases() {
  return {
      {"static, one element past the end", on(static_past_end<64>, {2, 64}),
       cudaErrorIllegalAddress},
      {"static, one element before the start", on(static_before_start, {1, 40}),
       cudaErrorIllegalAddress},
      {"a 2-D array, past its last row", on(tile, {1, dim3(9, 4)}), cudaErrorIllegalAddress},
      {"dynamic, one float too few", dynamic(dynamic_row<float>, 50, 49 * sizeof(float)),
       cudaErrorIllegalAddress},
      {"dynamic, floats where doubles have to be",
       dynamic(dynamic_row<double>, 64, 64 * sizeof(float)), cudaErrorIllegalAddress},
      {"dynamic, none asked for", dynamic(dynamic_row<float>, 33, 0), cudaErrorIllegalAddress},
      {"dynamic, far out", on(dynamic_far, {1, 33, 132}), cudaErrorIllegalAddress},
      {"global, more threads than elements", on(global_past_end, {16, 64}),
       cudaErrorIllegalAddress},
      {"global, the element behind the last, in guard memory", on(read_next, {1, 33}),
       cudaErrorIllegalAddress},
      {"global, before the start", on(read_previous, {dim3(1, 3), 100}), cudaErrorIllegalAddress},
      {"global, a vector half over the end", on(half_vector, {1, 64}), cudaErrorIllegalAddress},
      {"global, what a function returns", on(returned, {1, 251}), cudaErrorIllegalAddress},
      {"global, far out", on(rows_too_wide, {4, 10}), cudaErrorIllegalAddress},
      {"a null pointer", on(copy, {4, 10}), cudaErrorIllegalAddress},
  };
}

}  // namespace tests
