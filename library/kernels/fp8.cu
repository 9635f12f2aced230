// The launch of a norm to 8 bits: which shape and kernel.
#include "library/kernels/fp8.hpp"
#include "library/kernels/fp8_kernels.hpp"
#include "library/kernels/launch.hpp"

namespace rmsnorm::kernels {

cudaError_t launch(const Fp8Norm& given, cudaStream_t stream) {
  const Fp8Norm op = with_short_outer(
      given, {&Fp8Norm::x, &Fp8Norm::residual, &Fp8Norm::norm, &Fp8Norm::y, &Fp8Norm::scale});
  ForwardShape shape;
  const cudaError_t error = shape_on_device(op, &shape);
  if (error != cudaSuccess) return error;
  ForwardPlan plan = plan_for(op, shape, has_clusters());
  if (plan.kind == Kind::cluster) {
    const cudaError_t launched = launch_staged(
        fp8_cluster_kernel(op, plan),
        {.x = plan.blocks, .y = outer_of(op), .cluster = plan.cluster}, dim3(plan.threads),
        fp8_staged_bytes(op, plan), stream, op, plan);
    if (!is_refused(launched)) return launched;
    cudaGetLastError();  // a part of a GPU may be too small for the cluster
    plan = plan_for(op, is_split(plan) ? shape : shape_for_any(op), false);
  }
  const Fp8Kernel kernel =
      plan.kind == Kind::aligned ? fp8_aligned_kernel(op, plan) : fp8_any_kernel(op);
  return launch_overlapping(
      kernel, {plan.blocks, outer_of(op)}, dim3(plan.threads, plan.rows), 0, stream, op, plan);
}

}  // namespace rmsnorm::kernels
