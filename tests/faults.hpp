#pragma once
/// \file
/// Implementations that are wrong on purpose, one for each mistake that the verifier has to find,
/// whatever the operation is: from its description.

#include <functional>
#include <string>
#include <vector>

#include "common/contract/lesson.hpp"
#include "tests/operations.hpp"

namespace tests {

using Launch = std::function<cudaError_t(const rmsnorm::Problem&, cudaStream_t)>;

/// Does an operation by this launch, and calls itself 00_fake. All launches here compute in fp64 on
/// the CPU, take the tensors from wherever they are and put the results back there: so they can be
/// of either memory.
rmsnorm::Implementation implementation_with(
    const rmsnorm::Operation& operation, rmsnorm::Memory memory, Launch launch);

/// Makes no mistake.
rmsnorm::Implementation right(const rmsnorm::Operation& operation, rmsnorm::Memory memory);

/// Solves the problem, and then does this.
rmsnorm::Implementation right_and_then(
    const rmsnorm::Operation& operation, rmsnorm::Memory memory,
    std::function<void(const rmsnorm::Problem&)> change);

/// A mistake, and what the verifier's complaint has to say about it.
struct Fault {
  std::string name;
  rmsnorm::Implementation implementation;
  std::string complaint;
};

/// Every mistake that this operation allows.
std::vector<Fault> faults(const rmsnorm::Operation& operation, rmsnorm::Memory memory);

/// Element `index` of a tensor in either memory, of which it may be a neighbour.
float get(const void* data, rmsnorm::Dtype dtype, std::int64_t index);

/// Makes this the value of that element.
void put(void* data, rmsnorm::Dtype dtype, std::int64_t index, float value);

/// Changes the lowest of its bits.
void nudge(void* data, rmsnorm::Dtype dtype, std::int64_t index);

}  // namespace tests
