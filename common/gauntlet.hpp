#pragma once
/// \file
/// Everything that a kernel has to get through before the tests call it right.

#include <string>
#include <vector>

#include "common/lesson.hpp"

namespace rmsnorm {

/// How a lesson came through.
struct Verdict {
  std::string complaint = {};
  std::vector<std::string> hazards = {};  ///< the verifier's first; "" if it has none
  std::string where = {};                 ///< the problem that it is about: "3 x 1000, seed 2"
  int right = 0;                          ///< problems that the lesson has solved
  int refused = 0;                        ///< and those that it has refused
};

/// Runs the lesson, watched, on the problems of ./rmsnorm check, and then on other seeds, other
/// eps, other alignments and other values, NaN and Inf among them. On a GPU with enough memory,
/// beyond 2^31 elements as well. Ends at the first complaint.
/// \throws rmsnorm::CudaError if the lesson costs us the GPU.
Verdict run_gauntlet(const Lesson& lesson);

}  // namespace rmsnorm
