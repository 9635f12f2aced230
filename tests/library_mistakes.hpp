#pragma once
/// \file
/// Wrong calls of the library: each is refused with its status and a sentence, and does nothing.

#include <functional>
#include <string>
#include <vector>

#include "tests/dl_tensor.hpp"
#include "tests/gpu_support.hpp"

namespace tests {

/// A mistake, and what is said about it.
template <class Arguments>
struct Mistake {
  rmsnorm_status status;                 ///< what the call returns
  std::string sentence;                  ///< what it says, or a part of it
  std::function<void(Arguments&)> make;  ///< spoils right arguments
};

/// What the arrays hold after all work has ended.
inline std::vector<std::vector<float>> now(const std::vector<const DeviceArray*>& arrays) {
  std::vector<std::vector<float>> numbers;
  for (const DeviceArray* array : arrays) numbers.push_back(array->now());
  return numbers;
}

/// Makes each mistake alone: the call says so, and changes nothing. Arguments are right as they are
/// made, and name the arrays that a call writes: outputs().
template <class Arguments>
void check_mistakes(
    const std::vector<Mistake<Arguments>>& mistakes, rmsnorm_status (*call)(const Arguments&)) {
  for (const Mistake<Arguments>& mistake : mistakes) {
    Arguments arguments;
    INFO(mistake.sentence);
    REQUIRE(call(arguments) == RMSNORM_OK);  // without the mistake
    const auto before = now(arguments.outputs());
    mistake.make(arguments);
    CHECK(call(arguments) == mistake.status);
    CHECK_THAT(rmsnorm_last_error(), contains(mistake.sentence));
    CHECK(now(arguments.outputs()) == before);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
}

}  // namespace tests
