#pragma once
/// \file
/// Which places in the kernels' code have run, and what was compared there. The CPU device's
/// compiler tells; a GPU's does not.

#include <cstddef>
#include <string>
#include <vector>

namespace rmsnorm {

/// A comparison in the code of two numbers, one of which was the same in all problems.
struct Threshold {
  bool is_float;    ///< of the numbers
  double constant;  ///< the one that never changed
  double nearest;   ///< the other one, where it came nearest to the first
  int problem;      ///< the number of the problem in which it did
};

/// Whether this build can tell what has run.
bool can_cover();

/// Forgets all comparisons: the problems to come are another kernel's.
void forget_comparisons();

/// Begins a problem: what runs from now on is that of the problem with this number, 0 or more.
void cover(int problem);

/// The places that have run since then, each by a number of its own.
std::vector<std::size_t> places_run();

/// The comparisons that, in all problems, have not had each of their outcomes: less, equal and
/// greater.
std::vector<Threshold> thresholds_not_crossed();

}  // namespace rmsnorm
