#pragma once
/// \file
/// Exercises: a kernel that is right and lacks a lesson's idea, and what has to be counted once it
/// has it.

#include <vector>

#include "common/contract/regime.hpp"
#include "common/programs/goals.hpp"

namespace rmsnorm {

/// What a lesson's exercise is to reach, all of it, on one problem.
///
/// A kernel that has reached it is also held to the traffic that the lesson predicts.
struct Exercise {
  const char* lesson;        ///< the slug
  Shape shape;               ///< the problem that is counted
  Types types = {};          ///< of its tensors
  std::vector<Goal> goals;   ///< the kernel as it is given reaches none of them
  std::vector<Goal> within;  ///< what it has already, and must not lose
};

/// Makes an exercise known when the program starts.
struct ExerciseRegistration {
  explicit ExerciseRegistration(const Exercise& exercise);  ///< takes a copy
};

/// The main function of an exercise's program, which holds one kernel and one exercise. Without
/// arguments it checks the kernel, prints what is wrong or how far it is from the goals, and gives
/// an ExitCode (base/exit_code.hpp). With `--time` it verifies and times the kernel in the lesson's
/// regime, under the name "yours".
int run_exercise(int argc, const char* const* argv);

}  // namespace rmsnorm
