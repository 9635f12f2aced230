/// \file
/// Vectors at addresses that are no multiples of their size.

#include "tests/hazards/cases.hpp"

namespace tests {
namespace {

template <bool kCorrect>
__global__ void shifted_vectors(const float* x, float* y) {
  const auto* const vectors = reinterpret_cast<const float4*>(x + (kCorrect ? 4 : 1));
  const float4 v = vectors[threadIdx.x];  // <-- shifted
  y[threadIdx.x] = v.x + v.w;
}

/// Rows of 6 floats: every second one begins in the middle of a vector.
template <bool kCorrect>
__global__ void short_rows(const float* x, float* y) {
  const int columns = kCorrect ? 8 : 6;
  const float* const row = x + static_cast<int>(blockIdx.x) * columns;
  auto* const to = reinterpret_cast<float4*>(y + static_cast<int>(blockIdx.x) * columns);
  to[0] = make_float4(row[0], row[1], row[2], row[3]);  // <-- rows
}

template <class Vector, bool kCorrect>
__device__ Vector load(const float* from) {
  return *reinterpret_cast<const Vector*>(from + (kCorrect ? 2 : 1));  // <-- two
}

template <bool kCorrect>
__global__ void pairs_of_floats(const float* x, float* y) {
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const float2 v = load<float2, kCorrect>(x + 2 * t);
  y[t] = v.x + v.y;
}

template <bool kCorrect>
__global__ void doubles(const float* x, float* y) {
  y[threadIdx.x] = static_cast<float>(load<long long, kCorrect>(x) & 1);
}

template <bool kCorrect>
__global__ void shared_vectors(const float* x, float* y) {
  extern __shared__ float row[];
  const int t = threadIdx.x;
  auto* const vectors = reinterpret_cast<float4*>(row + (kCorrect ? 4 : 2));
  vectors[t] = make_float4(x[t], 0, 0, 0);  // <-- shared
  y[t] = vectors[t].x;
}

template <bool kCorrect>
__global__ void shared_doubles(const float* x, float* y) {
  __shared__ alignas(8) float words[68];
  auto* const values = reinterpret_cast<double*>(words + (kCorrect ? 2 : 1));
  for (int i = static_cast<int>(threadIdx.x); i < 33; i += static_cast<int>(blockDim.x)) {
    values[i] = x[i];  // <-- shared double
    y[i] = static_cast<float>(values[i]);
  }
}

}  // namespace

std::vector<Case> alignment_cases() {
  constexpr cudaError_t kError = cudaErrorMisalignedAddress;
  return {
      {.name = "global, 16 bytes, one float off",
       .wrong = [](Memory m) { shifted_vectors<false><<<1, 33>>>(m.x, m.y); },
       .right = [](Memory m) { shifted_vectors<true><<<1, 33>>>(m.x, m.y); },
       .kernel = "shifted_vectors<false>",
       .at = "shifted",
       .other = "",
       .block = "0",
       .thread = "0",
       .says =
           {"thread 0 reads 16 bytes of x at an address that is no multiple of 16",
            "A 16-byte access needs a 16-byte address, in every row: refuse the problem, or move "
            "single elements"},
       .error = kError},
      {.name = "global, 16 bytes, every second row",
       .wrong = [](Memory m) { short_rows<false><<<3, 1>>>(m.x, m.y); },
       .right = [](Memory m) { short_rows<true><<<3, 1>>>(m.x, m.y); },
       .kernel = "short_rows<false>",
       .at = "rows",
       .other = "",
       .block = "1",
       .thread = "0",
       .says = {"thread 0 writes 16 bytes of y at an address that is no multiple of 16"},
       .error = kError},
      {.name = "global, 8 bytes, a vector",
       .wrong = [](Memory m) { pairs_of_floats<false><<<1, dim3(5, 5)>>>(m.x, m.y); },
       .right = [](Memory m) { pairs_of_floats<true><<<1, dim3(5, 5)>>>(m.x, m.y); },
       .kernel = "pairs_of_floats<false>",
       .at = "two",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 reads 8 bytes of x at an address that is no multiple of 8"},
       .error = kError},
      {.name = "global, 8 bytes, a number",
       .wrong = [](Memory m) { doubles<false><<<1, 64>>>(m.x, m.y); },
       .right = [](Memory m) { doubles<true><<<1, 64>>>(m.x, m.y); },
       .kernel = "doubles<false>",
       .at = "two",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 reads 8 bytes of x at an address that is no multiple of 8"},
       .error = kError},
      {.name = "shared, 16 bytes",
       .wrong = [](Memory m) { shared_vectors<false><<<1, 40, 1024>>>(m.x, m.y); },
       .right = [](Memory m) { shared_vectors<true><<<1, 40, 1024>>>(m.x, m.y); },
       .kernel = "shared_vectors<false>",
       .at = "shared",
       .other = "",
       .block = "0",
       .thread = "0",
       .says =
           {"thread 0 writes 16 bytes of shared memory at row, at an address that is no multiple "
            "of "
            "16",
            "Move 16 bytes at once only from and to multiples of 16"},
       .error = kError},
      {.name = "shared, 8 bytes",
       .wrong = [](Memory m) { shared_doubles<false><<<1, 20>>>(m.x, m.y); },
       .right = [](Memory m) { shared_doubles<true><<<1, 20>>>(m.x, m.y); },
       .kernel = "shared_doubles<false>",
       .at = "shared double",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 writes 8 bytes of shared memory at words, at an address that is no "
                "multiple of "
                "8"},
       .error = kError},
  };
}

}  // namespace tests
