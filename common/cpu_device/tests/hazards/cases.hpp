#pragma once
/// \file
/// Kernels with a mistake each, and the same kernels without it.

#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <vector>

namespace tests {

/// What the kernels work on: two tensors in global memory, with guards around them.
struct Memory {
  static constexpr int kElements = 1002;
  const float* x;  ///< (kElements)
  float* y;        ///< (kElements)
};

/// A launch with a mistake, and the same without. messages.txt has what the device says of it.
struct Case {
  std::string name;                                         ///< unique in its file
  std::function<void(Memory memory, bool correct)> launch;  ///< with the mistake, or without
  cudaError_t error = cudaSuccess;  ///< that the wrong one leaves for the next synchronise
};

using Kernel = void (*)(const float* x, float* y, bool correct);

/// The launch of a kernel.
inline auto on(Kernel kernel, rmsnorm::cpu_device::Launch launch) {
  return [=](Memory memory, bool correct) { kernel->*launch(memory.x, memory.y, correct); };
}

/// An element of y that is 0 when a launch by on_flag() begins, and so is the next one.
inline constexpr int kFlag = 1000;

/// The launch of a kernel that uses them; a wrong one has so many more blocks.
inline std::function<void(Memory, bool)> on_flag(
    Kernel kernel, rmsnorm::cpu_device::Launch launch, unsigned more_if_wrong = 0) {
  return [=](Memory memory, bool correct) {
    cudaMemsetAsync(memory.y + kFlag, 0, 2 * sizeof(float));
    rmsnorm::cpu_device::Launch of_blocks = launch;
    if (!correct) of_blocks.grid.x += more_if_wrong;
    on(kernel, of_blocks)(memory, correct);
  };
}

/// The launch of four blocks, two of which are a cluster.
inline auto on_cluster(Kernel kernel, int threads) {
  return [=](Memory memory, bool correct) {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 2;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(4);
    config.blockDim = dim3(threads);
    config.attrs = &cluster;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, memory.x, memory.y, correct);
  };
}

// One file each, common/cpu_device/tests/hazards/NAME.cu.
std::vector<Case> race_cases();
std::vector<Case> global_cases();
std::vector<Case> memory_model_cases();
std::vector<Case> barrier_cases();
Case barrier_of_one_warp();  ///< a race, of whose threads one waits at a barrier
std::vector<Case> shuffle_cases();
std::vector<Case> temp_storage_cases();
std::vector<Case> unwritten_cases();
std::vector<Case> bounds_cases();
std::vector<Case> alignment_cases();
std::vector<Case> overlap_cases();
std::vector<Case> construct_cases();
std::vector<Case> cluster_cases();
std::vector<Case> bulk_copy_cases();
std::vector<Case> host_cases();
std::vector<Case> wait_cases();

}  // namespace tests
