#include <algorithm>
#include <cmath>

#include "common/contract/types.hpp"
#include "common/measure/benchmark.hpp"
#include "common/measure/roofline.hpp"

namespace rmsnorm {
namespace {

constexpr int kThreads = 256;

/// The first thread also copies the up to seven pairs of bytes that do not fill a vector.
__global__ void copy_float4(
    const std::uint16_t* __restrict__ from, std::uint16_t* __restrict__ to, std::int64_t size) {
  const std::int64_t vectors = size / 8;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < vectors) reinterpret_cast<float4*>(to)[i] = reinterpret_cast<const float4*>(from)[i];
  if (i == 0) {
    for (std::int64_t tail = vectors * 8; tail < size; ++tail) to[tail] = from[tail];
  }
}

std::int64_t bytes_of_x(const TypedProblem& p) {
  return static_cast<std::int64_t>(p.rows) * p.hidden *
         static_cast<std::int64_t>(bytes_of(p.dtype));
}

cudaError_t copy_with_runtime(const TypedProblem& p, cudaStream_t stream) {
  return cudaMemcpyAsync(p.y, p.x, bytes_of_x(p), cudaMemcpyDeviceToDevice, stream);
}

/// \param problem of a set: where it has x, and y to copy it to
template <class ProblemOfSet>
double measure(const ProblemOfSet& problem, int sets, Cache cache, double min_seconds) {
  double best_us = INFINITY;
  for (const auto copy : {copy_with_runtime, copy_with_kernel}) {
    const auto launch = [&](int set, cudaStream_t stream) { return copy(problem(set), stream); };
    best_us = std::min(best_us, time_launch(launch, cache, sets, min_seconds).median_us);
  }
  return gbps(2.0 * static_cast<double>(bytes_of_x(problem(0))), best_us);
}

}  // namespace

cudaError_t copy_with_kernel(const TypedProblem& p, cudaStream_t stream) {
  const std::int64_t size = bytes_of_x(p) / 2;
  if (size == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(size / 8 / kThreads + 1);
  copy_float4<<<blocks, kThreads, 0, stream>>>(
      static_cast<const std::uint16_t*>(p.x), static_cast<std::uint16_t*>(p.y), size);
  return cudaGetLastError();
}

double measure_copy(const Workload& workload, Cache cache, double min_seconds) {
  return measure(
      [&](int set) { return workload.typed_problem(set); }, workload.spec().sets, cache,
      min_seconds);
}

double measure_copy(const BackwardWorkload& workload, Cache cache, double min_seconds) {
  return measure(
      [&](int set) {
        const BackwardProblem p = workload.problem(set);
        TypedProblem copied;
        copied.x = p.x;
        copied.y = p.dx;
        copied.rows = p.rows;
        copied.hidden = p.hidden;
        copied.dtype = p.dtype;
        return copied;
      },
      workload.spec().sets, cache, min_seconds);
}

}  // namespace rmsnorm
