#pragma once
/// \file
/// Backward passes in fp64, right and wrong ones, for tests of what judges them.

#include <string>
#include <vector>

#include "common/contract/lesson.hpp"

namespace tests {

/// Enqueues a backward pass.
using BackwardLaunch = cudaError_t (*)(const rmsnorm::BackwardProblem&, cudaStream_t);

/// A lesson with this launch, whose results go through as many additions as these.
rmsnorm::Lesson backward_lesson(
    BackwardLaunch launch, rmsnorm::Memory memory = rmsnorm::Memory::host);

/// Solves the problem on the host, wherever the tensors are, and rounds each result once.
cudaError_t launch_right_backward(const rmsnorm::BackwardProblem& problem, cudaStream_t stream);

/// A mistake, and what the verifier has to say of it.
struct BackwardFault {
  std::string name;
  BackwardLaunch launch;
  std::string complaint;  ///< a part of the verifier's sentence
};

/// Mistakes that somebody could make.
std::vector<BackwardFault> backward_faults();

}  // namespace tests
