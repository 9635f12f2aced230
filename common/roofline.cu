#include <algorithm>
#include <cmath>

#include "common/benchmark.hpp"
#include "common/roofline.hpp"

namespace rmsnorm {
namespace {

constexpr int kThreads = 256;

/// The first thread also copies the up to three floats that do not fill a vector.
__global__ void copy_float4(
    const float* __restrict__ from, float* __restrict__ to, std::int64_t size) {
  const std::int64_t vectors = size / 4;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < vectors) reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(from)[i];
  if (i == 0) {
    for (std::int64_t tail = vectors * 4; tail < size; ++tail) to[tail] = from[tail];
  }
}

cudaError_t copy_with_runtime(const Problem& p, cudaStream_t stream) {
  const std::size_t bytes = sizeof(float) * p.rows * p.hidden;
  return cudaMemcpyAsync(p.y, p.x, bytes, cudaMemcpyDeviceToDevice, stream);
}

}  // namespace

cudaError_t copy_with_kernel(const Problem& p, cudaStream_t stream) {
  const std::int64_t size = static_cast<std::int64_t>(p.rows) * p.hidden;
  if (size == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(size / 4 / kThreads + 1);
  copy_float4<<<blocks, kThreads, 0, stream>>>(p.x, p.y, size);
  return cudaGetLastError();
}

double measure_copy(const Workload& workload, Cache cache, double min_seconds) {
  double best_us = INFINITY;
  for (const auto copy : {copy_with_runtime, copy_with_kernel}) {
    const auto launch = [&](int set, cudaStream_t stream) {
      return copy(workload.problem(set), stream);
    };
    best_us =
        std::min(best_us, time_launch(launch, cache, workload.spec().sets, min_seconds).median_us);
  }
  const Shape shape{workload.spec().rows, workload.spec().hidden};
  return gbps(static_cast<double>(bytes_of_x_and_y(shape)), best_us);
}

}  // namespace rmsnorm
