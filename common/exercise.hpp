#pragma once
/// \file
/// Exercises: a kernel that is right and lacks a lesson's idea, and what the CPU device has to
/// count once it has it.

#include <utility>
#include <vector>

#include "common/lesson.hpp"
#include "common/observation.hpp"
#include "common/regime.hpp"
#include "common/trace_report.hpp"

namespace rmsnorm {

/// What can be counted of a launch.
enum class Quantity {
  barriers,         ///< a row
  wavefronts,       ///< of shared memory, a row
  bank_conflicts,   ///< wavefronts that a better layout would save, a row
  reads_of_x,       ///< how many times x crosses global memory, in whole sectors
  most_sectors,     ///< that a request to global memory touches, in the worst line
  fewest_sectors,   ///< likewise
  lanes_a_request,  ///< that take part in a request to global memory, in the worst line
};

/// One thing to reach.
struct Goal {
  const char* text;  ///< "at most 2 barriers a row"
  Quantity quantity;
  enum { at_most, at_least } bound;
  double limit;
};

/// What a lesson's exercise is to reach, all of it, on one problem.
struct Exercise {
  const char* lesson;       ///< the slug
  Shape shape;              ///< the problem that is counted
  std::vector<Goal> goals;  ///< the kernel as it is given reaches none of them
  std::vector<Goal> keeps;  ///< what it has already, and must not lose
};

/// Makes an exercise known when the program starts.
struct ExerciseRegistration {
  explicit ExerciseRegistration(const Exercise& exercise);
};

/// How far a launch is from a goal.
struct Outcome {
  bool reached = false;
  double counted = 0;
  std::vector<std::pair<double, LineCount>> parts =
      {};  ///< what stands in the way, the worst first
};

/// Compares what was counted in a launch, of at least one row, with a goal.
Outcome judge(const Goal& goal, const Watched& launch);

/// The main function of an exercise's program, which holds one kernel and one exercise.
/// Without arguments it checks the kernel, prints what is wrong or how far it is from the goals,
/// and gives an ExitCode (options.hpp). With `--time` it verifies and times the kernel in the
/// lesson's regime, under the name "yours".
int run_exercise(int argc, const char* const* argv);

}  // namespace rmsnorm
