// A lesson that the CPU device cannot run.
#include <mma.h>

#include "common/operations/rms_norm.hpp"

namespace {

cudaError_t launch(const rmsnorm::TypedRmsNorm&, cudaStream_t) {
  return cudaSuccess;
}

rmsnorm::Traffic traffic(const rmsnorm::TypedRmsNorm& p) {
  return {.read = 8.0 * p.hidden, .written = 4.0 * p.hidden};
}

int sum_depth(const rmsnorm::TypedRmsNorm& p) {
  return p.hidden;
}

const rmsnorm::Registration<rmsnorm::TypedRmsNorm> lesson{{
    .slug = "98_tensor_cores",
    .title = "Tensor cores",
    .idea = "Matrix instructions, which a CPU has not",
    .regime = "prefill",
    .launch = launch,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
