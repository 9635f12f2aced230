/// \file
/// Accesses before the start and past the end.

#include "tests/hazards/cases.hpp"

namespace tests {
namespace {

template <bool kCorrect, int kThreads>
__global__ void static_past_end(const float* x, float* y) {
  __shared__ float staged[kThreads];
  staged[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kThreads + (kCorrect ? 0 : 1); ++i) sum += staged[i];  // <-- static past
  y[threadIdx.x] = sum;
}

template <bool kCorrect>
__global__ void static_before_start(const float* x, float* y) {
  __shared__ double staged[40];
  const int t = threadIdx.x;
  staged[t] = x[t];
  __syncthreads();
  if (!kCorrect || t > 0) y[t] = static_cast<float>(staged[t - 1]);  // <-- static before
}

/// The columns of a tile are one too few for the skewed index.
template <bool kCorrect>
__global__ void tile(const float* x, float* y) {
  __shared__ float columns[4][9];
  const unsigned i = threadIdx.x + (kCorrect ? 0 : threadIdx.y);
  columns[threadIdx.y][i] = x[i];  // <-- tile
  __syncthreads();
  y[threadIdx.y * 9 + threadIdx.x] = columns[threadIdx.y][threadIdx.x];
}

template <class Scalar>
__device__ void store(Scalar* row, int i, Scalar value) {
  row[i] = value;  // <-- stored
}

template <class Scalar>
__global__ void dynamic_row(const float* x, float* y) {
  extern __shared__ char memory[];
  auto* const row = reinterpret_cast<Scalar*>(memory);
  const int t = static_cast<int>(threadIdx.x);
  store<Scalar>(row, t, x[t]);
  y[t] = static_cast<float>(row[t]);
}

/// 4 MB past the end: where nothing of shared memory is any more.
template <bool kCorrect>
__global__ void dynamic_far(const float* x, float* y) {
  extern __shared__ float row[];
  const int t = threadIdx.x;
  row[kCorrect ? t : t << 20] = x[t];  // <-- dynamic far
  y[t] = row[kCorrect ? t : t << 20];
}

/// The grid has more threads than the tensor elements.
template <bool kCorrect>
__global__ void global_past_end(const float* x, float* y, int elements) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (!kCorrect || i < elements) y[i] = 2 * x[i % elements];  // <-- global past
}

/// Behind x lies guard memory that the process could read.
template <bool kCorrect>
__global__ void read_next(const float* x, float* y, int elements) {
  for (int i = static_cast<int>(threadIdx.x); i < elements; i += static_cast<int>(blockDim.x)) {
    const float next = !kCorrect || i + 1 < elements ? x[i + 1] : 0;  // <-- next
    y[i] = next - x[i];
  }
}

template <bool kCorrect>
__global__ void read_previous(const float* x, float* y) {
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (!kCorrect || i > 0) y[i] = x[i - 1];  // <-- previous
}

/// A row of 1002 elements has 250 vectors and a half.
template <bool kCorrect>
__global__ void half_vector(const float* x, float* y, int columns) {
  const float4* const vectors = reinterpret_cast<const float4*>(x);
  const int count = kCorrect ? columns / 4 : (columns + 3) / 4;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const float4 v = vectors[i];  // <-- half vector
    y[i] = v.x + v.y + v.z + v.w;
  }
}

template <bool kCorrect>
__global__ void rows_too_wide(const float* x, float* y) {
  const long long columns = kCorrect ? 10 : 1 << 24;
  y[threadIdx.x] = x[blockIdx.x * columns + threadIdx.x];  // <-- wide
}

__global__ void copy(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];  // <-- null
}

}  // namespace

std::vector<Case> bounds_cases() {
  const std::string advice = "Compare the index with the size before the access";
  const std::string launch_advice = "the third argument between <<< and >>>";
  constexpr cudaError_t kError = cudaErrorIllegalAddress;
  return {
      {.name = "static, one element past the end",
       .wrong = [](Memory m) { static_past_end<false, 64><<<2, 64>>>(m.x, m.y); },
       .right = [](Memory m) { static_past_end<true, 64><<<2, 64>>>(m.x, m.y); },
       .kernel = "static_past_end<false, 64>",
       .at = "static past",
       .other = "",
       .block = "0",
       .thread = "",
       .says = {" reads 4 bytes, 1 element past the end of staged (64 elements)", advice},
       .error = kError},
      {.name = "static, one element before the start",
       .wrong = [](Memory m) { static_before_start<false><<<1, 40>>>(m.x, m.y); },
       .right = [](Memory m) { static_before_start<true><<<1, 40>>>(m.x, m.y); },
       .kernel = "static_before_start<false>",
       .at = "static before",
       .other = "",
       .block = "0",
       .thread = "0",
       .says =
           {"thread 0 reads 8 bytes, 1 element before the start of staged (40 elements)", advice},
       .error = kError},
      {.name = "a 2-D array, past its last row",
       .wrong = [](Memory m) { tile<false><<<1, dim3(9, 4)>>>(m.x, m.y); },
       .right = [](Memory m) { tile<true><<<1, dim3(9, 4)>>>(m.x, m.y); },
       .kernel = "tile<false>",
       .at = "tile",
       .other = "",
       .block = "0",
       .thread = "",
       .says = {" past the end of columns (36 elements)", advice},
       .error = kError},
      {.name = "dynamic, one float too few",
       .wrong = [](Memory m) { dynamic_row<float><<<1, 50, 49 * sizeof(float)>>>(m.x, m.y); },
       .right = [](Memory m) { dynamic_row<float><<<1, 50, 50 * sizeof(float)>>>(m.x, m.y); },
       .kernel = "dynamic_row<float>",
       .at = "stored",
       .other = "",
       .block = "0",
       .thread = "49",
       .says = {"thread 49 writes 4 bytes, 1 ", " past the end of memory", launch_advice},
       .error = kError},
      {.name = "dynamic, floats where doubles have to be",
       .wrong = [](Memory m) { dynamic_row<double><<<1, 64, 64 * sizeof(float)>>>(m.x, m.y); },
       .right = [](Memory m) { dynamic_row<double><<<1, 64, 64 * sizeof(double)>>>(m.x, m.y); },
       .kernel = "dynamic_row<double>",
       .at = "stored",
       .other = "",
       .block = "0",
       .thread = "32",
       .says = {"thread 32 writes 8 bytes, 1 ", " past the end of memory", launch_advice},
       .error = kError},
      {.name = "dynamic, none asked for",
       .wrong = [](Memory m) { dynamic_row<float><<<1, 33>>>(m.x, m.y); },
       .right = [](Memory m) { dynamic_row<float><<<1, 33, 132>>>(m.x, m.y); },
       .kernel = "dynamic_row<float>",
       .at = "stored",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 writes 4 bytes, ", " past the end of memory (0 elements)"},
       .error = kError},
      {.name = "dynamic, far out",
       .wrong = [](Memory m) { dynamic_far<false><<<1, 33, 132>>>(m.x, m.y); },
       .right = [](Memory m) { dynamic_far<true><<<1, 33, 132>>>(m.x, m.y); },
       .kernel = "dynamic_far<false>",
       .at = "dynamic far",
       .other = "",
       .block = "0",
       .thread = "1",
       .says =
           {"thread 1 writes 4 bytes, 1048544 elements past the end of row (33 elements)",
            launch_advice},
       .error = kError},
      {.name = "global, more threads than elements",
       .wrong = [](Memory m) { global_past_end<false><<<16, 64>>>(m.x, m.y, m.kElements); },
       .right = [](Memory m) { global_past_end<true><<<16, 64>>>(m.x, m.y, m.kElements); },
       .kernel = "global_past_end<false>",
       .at = "global past",
       .other = "",
       .block = "15",
       .thread = "42",
       .says = {"thread 42 writes 4 bytes, 1 element past the end of y (1002 elements)", advice},
       .error = kError},
      {.name = "global, the element behind the last, in guard memory",
       .wrong = [](Memory m) { read_next<false><<<1, 33>>>(m.x, m.y, m.kElements); },
       .right = [](Memory m) { read_next<true><<<1, 33>>>(m.x, m.y, m.kElements); },
       .kernel = "read_next<false>",
       .at = "next",
       .other = "",
       .block = "0",
       .thread = "11",
       .says = {"thread 11 reads 4 bytes, 1 element past the end of x (1002 elements)", advice},
       .error = kError},
      {.name = "global, before the start",
       .wrong = [](Memory m) { read_previous<false><<<dim3(1, 3), 100>>>(m.x, m.y); },
       .right = [](Memory m) { read_previous<true><<<dim3(1, 3), 100>>>(m.x, m.y); },
       .kernel = "read_previous<false>",
       .at = "previous",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 reads 4 bytes, 1 element before the start of x (1002 elements)", advice},
       .error = kError},
      {.name = "global, a vector half over the end",
       .wrong = [](Memory m) { half_vector<false><<<1, 64>>>(m.x, m.y, m.kElements); },
       .right = [](Memory m) { half_vector<true><<<1, 64>>>(m.x, m.y, m.kElements); },
       .kernel = "half_vector<false>",
       .at = "half vector",
       .other = "",
       .block = "0",
       .thread = "58",
       .says = {"thread 58 reads 16 bytes, 1 element past the end of x (1002 elements)", advice},
       .error = kError},
      {.name = "global, far out",
       .wrong = [](Memory m) { rows_too_wide<false><<<4, 10>>>(m.x, m.y); },
       .right = [](Memory m) { rows_too_wide<true><<<4, 10>>>(m.x, m.y); },
       .kernel = "rows_too_wide<false>",
       .at = "wide",
       .other = "",
       .block = "1",
       .thread = "0",
       .says = {"thread 0 reads 4 bytes, ", " elements past the end of "},
       .error = kError},
      {.name = "a null pointer",
       .wrong = [](Memory m) { copy<<<4, 10>>>(nullptr, m.y); },
       .right = [](Memory m) { copy<<<4, 10>>>(m.x, m.y); },
       .kernel = "copy",
       .at = "null",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 reads 4 bytes at an address that no cudaMalloc has given"},
       .error = kError},
  };
}

}  // namespace tests
