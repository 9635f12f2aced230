#pragma once
/// \file
/// What an exercise is to reach: something that the CPU device counts, and how much of it.

#include <utility>
#include <vector>

#include "common/base/observation.hpp"
#include "common/programs/trace_report.hpp"

namespace rmsnorm {

/// What can be counted of a launch.
enum class Quantity {
  barriers,         ///< a row
  triggers,         ///< that are not late, a block
  requests,         ///< to global memory, a row
  wavefronts,       ///< of shared memory, a row
  bank_conflicts,   ///< wavefronts that a better layout would save, a row
  reads_of_x,       ///< how many times x crosses global memory, in whole sectors
  unkept_x,         ///< the same of the loads that do not carry the policy evict_last
  most_sectors,     ///< that a request to global memory touches, in the worst line
  fewest_sectors,   ///< likewise
  lanes_a_request,  ///< that take part in a request to global memory, in the worst line
};

/// One thing to reach.
struct Goal {
  const char* text;   ///< "at most 2 barriers a row"
  Quantity quantity;  ///< what is counted
  enum {
    at_most,     ///< the limit or less
    at_least,    ///< the limit or more
  } bound;       ///< the side of the limit
  double limit;  ///< which may itself be reached
};

/// How far a launch is from a goal.
struct Outcome {
  bool reached = false;  ///< whether the goal is met
  double counted = 0;    ///< the quantity
  /// The lines that stand in the way and what each contributes, the worst first.
  std::vector<std::pair<double, LineCount>> parts = {};
};

/// Compares what was counted in a launch, of at least one row, with a goal.
Outcome judge(const Goal& goal, const Watched& launch);

/// Whether the quantity is that of the worst line, not the sum of all lines.
bool is_of_worst_line(Quantity quantity);

}  // namespace rmsnorm
