// Reverses a row through shared memory, and has forgotten the barrier.
#include <cuda_runtime.h>

#include <cstdio>

#include "common/cpu_device/interface/coverage.hpp"
#include "common/cpu_device/interface/watching.hpp"

__global__ void reverse(const float* x, float* y) {
  __shared__ float row[64];
  row[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = row[63 - threadIdx.x];
  if (threadIdx.x > 63) {
    y[0] = 0;  // never
  }
}

int main() {
  constexpr std::size_t kBytes = 64 * sizeof(float);
  float* x = nullptr;
  float* y = nullptr;
  cudaMalloc(&x, kBytes);
  cudaMalloc(&y, kBytes);
  cudaMemset(x, 0, kBytes);
  rmsnorm::start_watching(
      {{"x", x, kBytes, sizeof(float), true, false}, {"y", y, kBytes, sizeof(float), false, true}});
  rmsnorm::cover(0);
  reverse<<<1, 64>>>(x, y);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(error));
  const rmsnorm::LaunchCounts counts = rmsnorm::stop_watching();
  for (const rmsnorm::LineCount& line : counts.lines) {
    std::printf(
        "line %d: %s of %s, %lld requests\n", line.line, line.kind.c_str(), line.what.c_str(),
        static_cast<long long>(line.requests));
  }
  for (const std::string& mistake : rmsnorm::take_hazards()) std::printf("%s\n", mistake.c_str());
  for (const rmsnorm::Lines& lines : rmsnorm::lines_never_run(false)) {
    std::printf("%s:%d: never run\n", lines.file.c_str(), lines.first);
  }
  cudaFree(x);
  cudaFree(y);
}
