#pragma once
/// \file
/// One launch of a lesson, with all that can go wrong without a look at the result.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/base/observation.hpp"
#include "common/contract/lesson.hpp"
#include "common/tensors/fenced_tensor.hpp"

namespace rmsnorm {

/// Whether a launch is to be observed.
enum class Watch {
  no,   ///< it only runs
  yes,  ///< what it does is counted, where the device can
};

/// What became of a launch.
struct Launched {
  std::string complaint = {};             ///< one sentence; empty if all is well
  std::vector<std::string> hazards = {};  ///< the device's complaints, of which that is the first
  Observation observation = {};           ///< what was counted, if it was watched
};

/// Calls `launch`, which enqueues the lesson on the stream, and waits for the end. A CUDA error
/// that leaves the GPU usable is a complaint. `tensors` are what the kernel may touch of global
/// memory.
/// \throws CudaError with the lesson's slug, if the GPU cannot be used any more
Launched launch_and_wait(
    const Lesson& lesson, const std::function<cudaError_t()>& launch, std::vector<Tensor> tensors,
    cudaStream_t stream, Watch watch);

/// While it lives, blocks run in another order, where the device has one: CUDA promises none, and a
/// result must not depend on it.
struct ReversedBlocks {
  ReversedBlocks() { reverse_blocks(true); }
  ~ReversedBlocks() { reverse_blocks(false); }
  ReversedBlocks(const ReversedBlocks&) = delete;
  ReversedBlocks& operator=(const ReversedBlocks&) = delete;
};

/// Adds a tensor of so many elements to what a kernel may touch, unless there is none.
void add_tensor(
    std::vector<Tensor>& tensors, const char* name, const void* data, std::size_t elements,
    Dtype dtype);

/// "" if the guards of set 0's tensor still hold poison, otherwise one sentence with the tensor's
/// name and its number of elements in words.
std::string complaint_about_guards(const FencedTensor& tensor, const char* name, const char* size);

}  // namespace rmsnorm
