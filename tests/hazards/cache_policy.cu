#include <cuda/annotated_ptr>

#include "tests/hazards/run_hazard.hpp"

namespace tests {
namespace {

__global__ void policies(const float* x, float* y) {
  using cuda::access_property;
  const float* const last =
      cuda::associate_access_property(x + threadIdx.x, access_property::persisting());
  const float* const first = cuda::associate_access_property(last, access_property::streaming());
  const float* const normal = cuda::associate_access_property(first, access_property::normal());
  float sum = *last;
  sum += first[32];
  sum += normal[64];
  cuda::associate_access_property(y, access_property::persisting())[threadIdx.x] = sum;
}

__global__ void past_the_end(const float* x, float* y) {
  y[0] = cuda::associate_access_property(x, cuda::access_property::persisting())[1];
}

}  // namespace

void launch_policies(const float* x, float* y) {
  policies<<<2, 32>>>(x, y);
}

void launch_past_the_end(const float* x, float* y) {
  past_the_end<<<1, 1>>>(x, y);
}

}  // namespace tests
