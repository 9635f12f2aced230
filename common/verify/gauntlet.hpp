#pragma once
/// \file
/// Everything that a kernel has to get through before anybody calls it right.

#include <string>
#include <string_view>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/contract/regime.hpp"
#include "common/contract/types.hpp"
#include "common/programs/report.hpp"
#include "common/programs/trace_report.hpp"

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
  std::vector<Watched> launches = {};  ///< those of GauntletLimits::counted that could be watched

  bool ok() const { return complaint.empty(); }  ///< whether the lesson is right
};

/// A problem whose launch is kept.
struct Counted {
  Shape shape;       ///< of x and y
  Types types = {};  ///< of the tensors
};

/// How far the gauntlet goes.
struct GauntletLimits {
  /// That the CPU device may take for a problem: it needs one or two.
  unsigned seconds_for_one = 30;
  /// Whether to go beyond 2^31 elements, where a GPU has the memory.
  bool beyond_32_bits = true;
  /// Further problems, whose launches are kept: for what is counted there.
  std::vector<Counted> counted = {};
  /// The line about a kernel without an end.
  std::string (*failed)(const Lesson& lesson, std::string_view why) = failed_line;
};

/// A verdict that is not ok() in words: where, what the device saw or what is wrong, advice.
std::string text_of(const Verdict& verdict);

/// Runs the lesson, watched, on a sweep of shapes, and then with other seeds, other eps, other
/// alignments and other values, NaN and Inf among them, and with very many elements. Lessons that
/// know other types get fewer shapes, and the other numbers, in each of those. Ends at the
/// first complaint; to refuse every problem is one, too. On the CPU device, a problem without an
/// end ends the program, with a line on stdout and kLessonWrong (options.hpp).
/// \throws CudaError if the lesson costs us the GPU.
Verdict run_gauntlet(const Lesson& lesson, const GauntletLimits& limits = {});

}  // namespace rmsnorm
