/// \file
/// A kernel whose launch may overlap the one before it does not wait for that one's end.

#include "tests/hazards/cases.hpp"

namespace tests {
namespace {

template <bool kCorrect>
__global__ void reads_early(const float* x, float* y) {
  const int t = threadIdx.x;
  float value = kCorrect ? 0 : x[t];  // <-- read
  cudaGridDependencySynchronize();
  if (kCorrect) value = x[t];
  y[t] = value;
}

template <bool kCorrect>
__global__ void writes_early(const float* x, float* y) {
  const int t = threadIdx.x;
  if (!kCorrect) y[t] = 1;  // <-- write
  cudaGridDependencySynchronize();
  if (kCorrect) y[t] = x[t];
}

/// One thread waits, and the barrier lets the others wait for that one.
template <bool kCorrect>
__global__ void one_waits(const float*, float* y) {
  const int t = threadIdx.x;
  if (t == 0) cudaGridDependencySynchronize();
  if (kCorrect) __syncthreads();
  y[t] = 1;  // <-- others
}

__global__ void never_waits(const float* x, float* y) {
  const int t = threadIdx.x;
  reinterpret_cast<float4*>(y)[t] = reinterpret_cast<const float4*>(x)[t];  // <-- never
}

void launch(void (*kernel)(const float*, float*), Memory m, bool may_overlap = true) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = may_overlap ? 1 : 0;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(2);
  config.blockDim = dim3(64);
  config.attrs = &overlap;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, m.x, m.y);
}

}  // namespace

std::vector<Case> overlap_cases() {
  const std::string early = " before cudaGridDependencySynchronize(): the kernel before may still";
  const std::string advice = "The launch may overlap the one before it: let the thread wait first";
  return {
      {.name = "a load before the wait",
       .wrong = [](Memory m) { launch(reads_early<false>, m); },
       .right = [](Memory m) { launch(reads_early<true>, m); },
       .kernel = "reads_early<false>",
       .at = "read",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 reads 4 bytes of x" + early + " be writing it", advice}},
      {.name = "a store before the wait",
       .wrong = [](Memory m) { launch(writes_early<false>, m); },
       .right = [](Memory m) { launch(writes_early<true>, m); },
       .kernel = "writes_early<false>",
       .at = "write",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 writes 4 bytes of y" + early + " be using it", advice}},
      {.name = "a wait of one thread and no barrier",
       .wrong = [](Memory m) { launch(one_waits<false>, m); },
       .right = [](Memory m) { launch(one_waits<true>, m); },
       .kernel = "one_waits<false>",
       .at = "others",
       .other = "",
       .block = "0",
       .thread = "1",
       .says = {"thread 1 writes 4 bytes of y" + early}},
      {.name = "no wait, in a launch that may overlap",
       .wrong = [](Memory m) { launch(never_waits, m); },
       .right = [](Memory m) { launch(never_waits, m, false); },
       .kernel = "never_waits",
       .at = "never",
       .other = "",
       .block = "0",
       .thread = "0",
       .says = {"thread 0 reads 16 bytes of x" + early}},
  };
}

}  // namespace tests
