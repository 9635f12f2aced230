// The forward launch: which kernel, and how much shared memory it has.
#include "library/kernels/forward.hpp"
#include "library/kernels/forward_kernels.hpp"
#include "library/kernels/forward_plan.hpp"
#include "library/kernels/launch.hpp"

namespace rmsnorm::kernels {
namespace {

ForwardKernel kernel_for(const Forward& op, const ForwardPlan& plan) {
  switch (plan.kind) {
    case Kind::aligned:
      return aligned_kernel(op, plan);
    case Kind::cluster:
      return cluster_kernel(op, plan);
    case Kind::long_rows:
      return long_rows_kernel(op);
    case Kind::unaligned:
      return unaligned_kernel(op, plan);
  }
  return nullptr;
}

/// Lets the kernel have the shared memory of its plan, or as much of it as the GPU has. The limit
/// is that of the GPU, and not the plan's: other threads may launch the same kernel meanwhile.
cudaError_t allow_shared_memory(ForwardKernel kernel, ForwardPlan& plan) {
  int device = 0;
  int most = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (error != cudaSuccess) return error;
  most -= 1024;  // for the kernel's variables
  stage_at_most(most, plan);
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
}

cudaError_t launch(const Forward& op, ForwardPlan plan, cudaStream_t stream) {
  const ForwardKernel kernel = kernel_for(op, plan);
  if (plan.blocks > 0 && plan.staged > 0) {
    const cudaError_t error = allow_shared_memory(kernel, plan);
    if (error != cudaSuccess) return error;
  }
  return launch_overlapping(
      kernel, plan.blocks, 1, plan.cluster, dim3(plan.threads, plan.rows), staged_bytes(plan),
      stream, op, plan);
}

}  // namespace

cudaError_t launch(const Forward& op, cudaStream_t stream) {
  int major = 0;
  cudaError_t error = capability_of_device(&major);
  if (error != cudaSuccess) return error;
  const ForwardPlan plan = plan_for(op, major >= 9);
  error = launch(op, plan, stream);
  const bool is_too_large =
      error == cudaErrorInvalidClusterSize || error == cudaErrorLaunchOutOfResources;
  if (plan.cluster == 1 || !is_too_large) return error;
  // A part of a GPU may be too small for the cluster: it gets the next best kernel.
  cudaGetLastError();
  return launch(op, plan_for(op, false), stream);
}

}  // namespace rmsnorm::kernels
