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
  ForwardPlan plan = plan_for(op, shape);
  if (shape.kind == Kind::aligned && asks_ahead(op, plan))
    plan.prefetch_distance =
        prefetch_distance(std::int64_t{op.hidden} * bytes_of(op.dtype), op.inner, 32 << 10);
  const Fp8Kernel kernel =
      shape.kind == Kind::aligned ? fp8_aligned_kernel(op, plan) : fp8_any_kernel(op);
  const std::int64_t blocks = (op.inner + plan.rows - 1) / plan.rows;  // for one outer index
  const std::int64_t outer = op.rows == 0 ? 0 : op.rows / op.inner;
  const std::int64_t tensors = op.residual.data == nullptr ? 1 : 2;
  plan.prefetching_blocks =
      prefetching_blocks(tensors * plan.rows * op.hidden * bytes_of(op.dtype), blocks * outer);
  return launch_overlapping(
      kernel, {blocks, outer}, dim3(plan.threads, plan.rows), 0, stream, op, plan);
}

}  // namespace rmsnorm::kernels
