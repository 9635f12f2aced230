// The forward launch: which shape and kernel, and how much shared memory it has.
#include "library/kernels/forward.hpp"
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_plan.hpp"
#include "library/kernels/launch.hpp"
#include "library/kernels/properties.hpp"
#include "library/kernels/tuned.hpp"

namespace rmsnorm::kernels {
namespace {

ForwardKernel kernel_for(const HeadsForward& op, const ForwardPlan& plan) {
  if (plan.is_fallback) return fallback_kernel(op);
  switch (plan.kind) {
    case Kind::aligned:
      return aligned_kernel(op, plan);
    case Kind::cluster:
      return cluster_kernel(op, plan);
    case Kind::long_rows:
      return long_rows_kernel(op);
    case Kind::unaligned:
      return unaligned_kernel(op, plan);
    case Kind::mixed:
      return mixed_kernel(op);
  }
  return nullptr;
}

/// Bytes of shared memory of a block of the plan. Some that nobody uses leave an SM room for four
/// blocks of 256 threads that have fp32's 4 vectors each: with five, large launches take longer.
int shared_bytes(const HeadsForward& op, const ForwardPlan& plan) {
  const bool is_for_four = plan.kind == Kind::aligned && plan.is_large && plan.threads == 256 &&
                           plan.vectors == 4 && op.dtype == Dtype::fp32;
  constexpr int kMoreThanFifth = 45 << 10;
  return is_for_four ? kMoreThanFifth : staged_bytes(plan);
}

cudaError_t launch_plan(const HeadsForward& op, const ForwardPlan& plan, cudaStream_t stream) {
  const ForwardKernel kernel = kernel_for(op, plan);
  if (plan.is_fallback) {
    return launch_overlapping(
        kernel, {plan.blocks / plan.cluster}, dim3(fallback_threads(plan), plan.rows), 0, stream,
        op, plan);
  }
  return launch_staged(
      kernel, {.x = plan.blocks, .cluster = plan.cluster}, dim3(plan.threads, plan.rows),
      shared_bytes(op, plan), stream, op, plan);
}

}  // namespace

cudaError_t shape_on_device(const HeadsForward& op, ForwardShape* shape) {
  *shape = shape_by_formula(op, false);
  if (shape->kind == Kind::unaligned || shape->kind == Kind::mixed) return cudaSuccess;
  const cudaDeviceProp* device = nullptr;
  const cudaError_t error = properties_of_device(&device);
  if (error != cudaSuccess) return error;
  const auto tuned = tuned_shape(device->name, bytes_of(op.dtype), vectors_of(op));
  *shape = tuned ? *tuned : shape_by_formula(op, device->major >= 9);
  return cudaSuccess;
}

cudaError_t launch_in_shape(
    const HeadsForward& op, const ForwardShape& shape, cudaStream_t stream) {
  return launch_plan(op, plan_for(op, shape), stream);
}

cudaError_t launch(const HeadsForward& op, cudaStream_t stream) {
  ForwardShape shape;
  cudaError_t error = shape_on_device(op, &shape);
  if (error != cudaSuccess) return error;
  ForwardPlan plan = plan_for(op, shape);
  error = launch_plan(op, plan, stream);
  if (plan.kind != Kind::cluster || !is_refused(error)) return error;
  // A part of a GPU may be too small for the cluster: one block does the same, with the same bits.
  cudaGetLastError();
  plan.is_fallback = true;
  return launch_plan(op, plan, stream);
}

}  // namespace rmsnorm::kernels
