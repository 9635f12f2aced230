#pragma once
/// \file
/// Which places in the kernels' code have run, and what was compared there. The CPU device's
/// compiler tells; a GPU's does not.

#include <cstddef>
#include <optional>
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

/// A line of code, and those behind it.
struct Lines {
  std::string file;  ///< as the compiler was given it
  int first = 0;     ///< from 1
  int last = 0;      ///< the same, for one line
};

/// Whether this build can tell what has run.
bool can_cover();

/// Forgets all comparisons: the problems to come are another kernel's.
void forget_comparisons();

/// Begins a problem: what runs from now on is that of the problem with this number, 0 or more.
void cover(int problem);

/// The places that have run since then, each by a number of its own, in their order.
std::vector<std::size_t> places_run();

/// The comparisons that, in all problems, have not had each of their outcomes: less, equal and
/// greater.
std::vector<Threshold> thresholds_not_crossed();

/// Lets a CUDA call fail, after so many others that are made from now on, and no work be done,
/// until the next time: then also error paths run. Without a number, all is as it was.
void let_call_fail(std::optional<int> calls_before);

/// The lines with code that has never run, in the files of which something has: not the harness's
/// own, nor what an exception or abort() ends. `all` also takes functions that never ran at all.
std::vector<Lines> lines_never_run(bool all);

}  // namespace rmsnorm
