/// \file
/// A kernel whose launch may overlap the one before it does not wait for that one's end.

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {
namespace {

__global__ void reads_early(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  float value = correct ? 0 : x[t];  // <-- read
  cudaGridDependencySynchronize();
  if (correct) value = x[t];
  y[t] = value;
}

__global__ void writes_early(const float* x, float* y, bool correct) {
  const int t = threadIdx.x;
  if (!correct) y[t] = 1;  // <-- write
  cudaGridDependencySynchronize();
  if (correct) y[t] = x[t];
}

/// One thread waits, and the barrier lets the others wait for that one.
__global__ void one_waits(const float*, float* y, bool correct) {
  const int t = threadIdx.x;
  if (t == 0) cudaGridDependencySynchronize();
  if (correct) __syncthreads();
  y[t] = 1;  // <-- others
}

__global__ void never_waits(const float* x, float* y, bool) {
  const int t = threadIdx.x;
  reinterpret_cast<float4*>(y)[t] = reinterpret_cast<const float4*>(x)[t];  // <-- never
}

/// Launches that may overlap; the right ones only of kernels that wait.
auto overlapping(Kernel kernel, bool waits = true) {
  return [=](Memory m, bool correct) {
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = waits || !correct ? 1 : 0;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(2);
    config.blockDim = dim3(64);
    config.attrs = &overlap;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, m.x, m.y, correct);
  };
}

}  // namespace

std::vector<Case> overlap_cases() {
  return {
      {"a load before the wait", overlapping(reads_early)},
      {"a store before the wait", overlapping(writes_early)},
      {"a wait of one thread and no barrier", overlapping(one_waits)},
      {"no wait, in a launch that may overlap", overlapping(never_waits, false)},
  };
}

}  // namespace tests
