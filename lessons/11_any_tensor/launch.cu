// Lesson 11 - Any tensor: the launch
// Changed    the tensors decide which kernel; a launch may overlap the end of the one before it.
// Unchanged  one launch.
// Expect     less time between two launches, which is what decode consists of.
#include "lessons/11_any_tensor/any_tensor.hpp"
#include "lessons/11_any_tensor/kernels.hpp"
#include "lessons/11_any_tensor/plan.hpp"

namespace {

using namespace rmsnorm::any_tensor;

Kernel kernel_for(const Operation& op, const Plan& plan) {
  if (plan.kind == Kind::ragged) return ragged_kernel(op, plan);
  if (plan.kind == Kind::longest) return longest_kernel(op, op.tensors[0].weight != nullptr);
  return aligned_kernel(op, plan);
}

/// Lets the kernel have the shared memory of its plan, or as much of it as the GPU has. The limit
/// is that of the GPU, and not the plan's: other threads may launch the same kernel meanwhile.
cudaError_t allow_shared_memory(Kernel kernel, int device, Plan& plan) {
  int most = 0;
  const auto optin = cudaDevAttrMaxSharedMemoryPerBlockOptin;
  const cudaError_t error = cudaDeviceGetAttribute(&most, optin, device);
  if (error != cudaSuccess) return error;
  most -= 1024;  // for the kernel's variables
  stage_at_most(most, plan);
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
}

}  // namespace

cudaError_t rmsnorm::any_tensor::launch(
    const Operation& op, cudaStream_t stream, bool may_overlap) {
  Plan plan = plan_for(op);
  if (plan.blocks == 0) return cudaSuccess;  // a grid of no blocks is an error
  if (plan.blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
  const Kernel kernel = kernel_for(op, plan);
  int device = 0;
  int major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (error == cudaSuccess && plan.staged > 0) error = allow_shared_memory(kernel, device, plan);
  if (error != cudaSuccess) return error;

  // From Hopper on, the grid may be set up while the kernel before still runs; wait_for_inputs()
  // waits for its end.
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(plan.blocks));
  config.blockDim = dim3(plan.threads, plan.rows);
  config.dynamicSmemBytes = staged_bytes(plan);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = may_overlap && major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, op, plan);
}
