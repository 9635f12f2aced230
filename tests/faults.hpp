#pragma once
/// \file
/// Lessons that are wrong on purpose, one for each mistake that the verifier has to find.

#include <string>
#include <vector>

#include "common/contract/lesson.hpp"

namespace tests {

using Launch = cudaError_t (*)(const rmsnorm::Problem&, cudaStream_t);

/// A mistake, and what the verifier's complaint has to say about it.
struct Fault {
  const char* name;
  Launch launch;
  const char* complaint;
};

/// Every mistake.
const std::vector<Fault>& faults();

/// RMSNorm without a mistake.
cudaError_t launch_right(const rmsnorm::Problem& problem, cudaStream_t stream);

/// RMSNorm of any types without a mistake, in fp32, on tensors in host memory.
cudaError_t launch_typed(const rmsnorm::TypedProblem& problem, cudaStream_t stream);

/// A lesson with the given launch. All launches here compute in fp64 on the CPU, take the tensors
/// from wherever they are and put the result back there: so they can be lessons of either memory.
rmsnorm::Lesson lesson_with(Launch launch, rmsnorm::Memory memory);

/// x / sqrt(eps + mean of squares) * weight of one row in fp64, rounded to fp32: the tests' own
/// reference, in other words than the harness's.
std::vector<float> right_row(
    const std::vector<float>& x, const std::vector<float>& weight, double eps);

}  // namespace tests
