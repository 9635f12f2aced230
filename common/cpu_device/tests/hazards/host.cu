/// \file
/// What belongs to the host: its memory and its variables.

#include <memory>

#include "common/cpu_device/tests/hazards/cases.hpp"

namespace tests {

float of_host = 2;  // for everybody: else g++ makes constants of them
struct Counter {
  int count;
} counter;

namespace {

__device__ float of_device = 2;
__constant__ float table[2] = {2, 2};
__device__ const float constants[] = {2, 2, 2};

__global__ void reads_variable(const float* x, float* y, bool correct) {
  static float own = 2;  // as CUDA allows
  const int t = threadIdx.x;
  const float factor = correct ? of_device + table[t % 2] + own : of_host;  // <-- variable
  y[t] = factor * constants[t % 3] * x[t];
}

__global__ void writes_variable(const float* x, float* y, bool correct) {
  y[threadIdx.x] = x[threadIdx.x];
  if (!correct && threadIdx.x == 0) counter.count = 1;  // <-- counter
}

__global__ void read_pointer(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];  // <-- pointer
}

void launch_with_host_memory(Memory memory, bool correct) {
  static const auto on_heap = std::make_unique<float[]>(32);
  read_pointer<<<1, 32>>>(correct ? memory.x : on_heap.get(), memory.y);
}

}  // namespace

std::vector<Case> host_cases() {
  return {
      {"a variable of the host that is read", on(reads_variable, {1, 32})},
      {"a variable of the host that is written", on(writes_variable, {1, 32}),
       cudaErrorIllegalAddress},
      {"a pointer to the host's memory", launch_with_host_memory, cudaErrorIllegalAddress},
  };
}

}  // namespace tests
