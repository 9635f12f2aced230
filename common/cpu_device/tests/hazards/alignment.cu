/// \file
/// Vectors at addresses that are no multiples of their size.

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

__global__ void shifted_vectors(const float* x, float* y, bool correct) {
  const auto* const vectors = reinterpret_cast<const float4*>(x + (correct ? 4 : 1));
  const float4 v = vectors[threadIdx.x];  // <-- shifted
  y[threadIdx.x] = v.x + v.w;
}

/// Rows of 6 floats: every second one begins in the middle of a vector.
__global__ void short_rows(const float* x, float* y, bool correct) {
  const int columns = correct ? 8 : 6;
  const float* const row = x + static_cast<int>(blockIdx.x) * columns;
  auto* const to = reinterpret_cast<float4*>(y + static_cast<int>(blockIdx.x) * columns);
  to[0] = make_float4(row[0], row[1], row[2], row[3]);  // <-- rows
}

template <class Vector>
__device__ Vector load(const float* from, bool correct) {
  return *reinterpret_cast<const Vector*>(from + (correct ? 2 : 1));  // <-- two
}

__global__ void pairs_of_floats(const float* x, float* y, bool correct) {
  const int t = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const float2 v = load<float2>(x + 2 * t, correct);
  y[t] = v.x + v.y;
}

__global__ void doubles(const float* x, float* y, bool correct) {
  y[threadIdx.x] = static_cast<float>(load<long long>(x, correct) & 1);
}

__global__ void shared_vectors(const float* x, float* y, bool correct) {
  extern __shared__ float row[];
  const int t = threadIdx.x;
  auto* const vectors = reinterpret_cast<float4*>(row + (correct ? 4 : 2));
  vectors[t] = make_float4(x[t], 0, 0, 0);  // <-- shared
  y[t] = vectors[t].x;
}

__global__ void shared_doubles(const float* x, float* y, bool correct) {
  __shared__ alignas(8) float words[68];
  auto* const values = reinterpret_cast<double*>(words + (correct ? 2 : 1));
  for (int i = static_cast<int>(threadIdx.x); i < 33; i += static_cast<int>(blockDim.x)) {
    values[i] = x[i];  // <-- shared double
    y[i] = static_cast<float>(values[i]);
  }
}

}  // namespace

std::vector<Case> alignment_cases() {
  return {
      {"global, 16 bytes, one float off", on(shifted_vectors, {1, 33}), cudaErrorMisalignedAddress},
      {"global, 16 bytes, every second row", on(short_rows, {3, 1}), cudaErrorMisalignedAddress},
      {"global, 8 bytes, a vector", on(pairs_of_floats, {1, dim3(5, 5)}),
       cudaErrorMisalignedAddress},
      {"global, 8 bytes, a number", on(doubles, {1, 64}), cudaErrorMisalignedAddress},
      {"shared, 16 bytes", on(shared_vectors, {1, 40, 1024}), cudaErrorMisalignedAddress},
      {"shared, 8 bytes", on(shared_doubles, {1, 20}), cudaErrorMisalignedAddress},
  };
}

}  // namespace tests
