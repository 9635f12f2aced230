// Lesson 12 - Residual add: the launch
// Changed    nothing: this is lesson 11's, for one kernel.
// Unchanged  the grid may be set up while the kernel before it still runs.
// Expect     less time between two launches.
#include "lessons/12_residual_add/plan.hpp"
#include "lessons/12_residual_add/residual_add.hpp"

cudaError_t rmsnorm::residual_add::launch(const Operation& op, cudaStream_t stream) {
  if (op.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  const Plan plan = plan_for(op);
  const std::int64_t blocks = (op.rows - 1) / plan.rows + 1;
  if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;

  // From Hopper on, the grid may be set up while the kernel before still runs; wait_for_inputs()
  // waits for its end.
  int device = 0;
  int major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(plan.threads, plan.rows);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel_for(op, plan), op);
}
