#pragma once
/// \file
/// Exercises: a kernel that is right and lacks a lesson's idea, and what has to be counted once it
/// has it. A project is an exercise about an operation of its own, after the last lesson.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/contract/regime.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "common/records/result.hpp"
#include "common/verify/watched.hpp"

namespace rmsnorm {

/// What can be counted of a launch.
enum class Quantity {
  barriers,         ///< a row
  overlaps,         ///< the share of blocks whose launch may overlap the one before
  triggers,         ///< that are not late, a block
  late_weight,      ///< requests for the weight after a barrier of their block, a row
  requests,         ///< to global memory, a row
  sectors,          ///< of global memory, a row
  wavefronts,       ///< of shared memory, a row
  bank_conflicts,   ///< wavefronts that a better layout would save, a row
  reads_of_x,       ///< how many times x is read from global memory, in whole sectors
  unkept_x,         ///< the same of the loads that do not carry the policy evict_last
  most_sectors,     ///< that a request to global memory touches, in the worst line
  fewest_sectors,   ///< likewise
  lanes_a_request,  ///< that take part in a request to global memory, in the worst line
  peer_sectors,     ///< of the memory of other ranks, a row
  signals,          ///< requests that tell other ranks something, a row
};

/// One thing to reach.
struct Goal {
  const char* text;   ///< "at most 2 barriers per row"
  Quantity quantity;  ///< what is counted
  enum {
    at_most,         ///< the limit or less
    at_least,        ///< the limit or more
  } bound;           ///< the side of the limit
  double limit;      ///< which may itself be reached
  Shape shape = {};  ///< the problem that is counted; without rows: the exercise's
};

/// How far a launch is from a goal.
struct Outcome {
  bool reached = false;  ///< whether the goal is met
  double counted = 0;    ///< the quantity
  /// The lines that stand in the way and what each contributes, the worst first. Of a sum that is
  /// too small: the lines that count, the largest first.
  std::vector<std::pair<double, LineCount>> parts = {};
};

/// "line  39"; a line that is not of the exercise's file, whose path has the slug in it, with its
/// file: "library/kernels/row.cuh:184".
std::string place_of(const LineCount& line, std::string_view slug);

/// Compares what was counted in a launch, of at least one row, with a goal.
Outcome judge(const Goal& goal, const Watched& launch);

/// What a lesson's exercise, or a project's, is to reach, all of it.
///
/// A kernel that has reached it is also held to the traffic that the file predicts.
struct Exercise {
  const char* lesson;        ///< the slug, or the project's name
  Shape shape;               ///< the problem that is counted
  Types types = {};          ///< of its tensors
  std::vector<Goal> goals;   ///< the kernel as it is given reaches none of them
  std::vector<Goal> within;  ///< what it has already, and must not lose
  /// In which it is to be as fast as a copy of as many bytes, on a GPU. None: it is timed in the
  /// lesson's, and not graded.
  std::vector<const char*> regimes = {};
};

/// Whether a result reached as much of the roof's bandwidth as a project is to reach. Without
/// times, as on the CPU device, it has not.
bool is_as_fast_as_roof(const Result& result);

/// What is said of that: "at least 95 % of the roof's bandwidth: 87.0 % measured in heads".
std::string share_text(const Result& result);

/// Makes an exercise known when the program starts.
struct ExerciseRegistration {
  explicit ExerciseRegistration(const Exercise& exercise);  ///< takes a copy
};

/// The main function of an exercise's program, which holds one kernel and one exercise. Without
/// arguments it checks the kernel, prints what is wrong or how far it is from the goals, and gives
/// an ExitCode (base/exit_code.hpp). With `--goals` it does so on the problems alone that are
/// counted. With `--time` it verifies and times the kernel in the lesson's regime, or in the
/// exercise's, whose results are graded, under the name "yours".
int run_exercise(int argc, const char* const* argv);

}  // namespace rmsnorm
