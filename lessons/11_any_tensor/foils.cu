// Lesson 11 - Any tensor, foils
// Given      the lesson's kernels.
// Changed    no launch begins before the one before it has ended, as in all lessons up to 10.
// Expect     what the overlap brings: much in decode, little elsewhere.
#include "lessons/11_any_tensor/any_tensor.hpp"
#include "lessons/11_any_tensor/plan.hpp"

namespace {

using namespace rmsnorm::any_tensor;

cudaError_t launch_alone(const rmsnorm::TypedProblem& p, cudaStream_t stream) {
  return launch(operation_of(p), stream, /*may_overlap=*/false);
}

const rmsnorm::Registration alone{{
    .slug = "11_any_tensor/alone",
    .title = "Any tensor, without overlap",
    .idea = "No launch begins before the one before it has ended",
    .regime = "decode",
    .launch = launch_alone,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
