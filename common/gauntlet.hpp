#pragma once
/// \file
/// Everything that a kernel has to get through before anybody calls it right.

#include <string>
#include <vector>

#include "common/lesson.hpp"

namespace rmsnorm {

/// How a lesson came through.
struct Verdict {
  std::string complaint = {};             ///< the verifier's first; "" if it has none
  std::vector<std::string> hazards = {};  ///< the device's complaints, of which that is the first
  std::string advice = {};        ///< where to look if the complaint does not say; "" if it does
  std::string where = {};         ///< the last problem that it has run on: "3 x 1000, seed 2"
  int right = 0;                  ///< problems that the lesson has solved
  int refused = 0;                ///< and those that it has refused
  std::string last_refusal = {};  ///< why it refused the last of those

  bool ok() const { return complaint.empty(); }
};

/// How long the CPU device may take for one problem, in seconds: it needs one or two.
inline constexpr unsigned kSecondsForOne = 30;

/// Runs the lesson, watched, on a sweep of shapes, and then with other seeds, other eps, other
/// alignments and other values, NaN and Inf among them. On a GPU with enough memory, beyond 2^31
/// elements as well. Ends at the first complaint; to refuse every problem is one, too. On the CPU
/// device, a problem without an end ends the program, with a line on stdout and kLessonWrong
/// (options.hpp).
/// \throws CudaError if the lesson costs us the GPU.
Verdict run_gauntlet(const Lesson& lesson, unsigned seconds_for_one = kSecondsForOne);

}  // namespace rmsnorm
