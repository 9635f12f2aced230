// A lesson that the CPU device cannot run.
#include <mma.h>

#include "common/contract/lesson.hpp"

namespace {

cudaError_t launch(const rmsnorm::Problem&, cudaStream_t) {
  return cudaSuccess;
}

rmsnorm::Traffic traffic(int hidden) {
  return {.read = 8.0 * hidden, .written = 4.0 * hidden};
}

int sum_depth(int hidden) {
  return hidden;
}

const rmsnorm::Registration lesson{{
    .slug = "98_tensor_cores",
    .title = "Tensor cores",
    .idea = "Matrix instructions, which a CPU has not",
    .regime = "prefill",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
