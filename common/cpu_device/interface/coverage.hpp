#pragma once
/// \file
/// Which places in the kernels' code have run, and what was compared there. The CPU device's
/// compiler tells; a GPU's does not.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/packed.hpp"

namespace rmsnorm {

/// A comparison in the code of two numbers, one of which was the same in all problems.
struct Threshold {
  bool is_float;    ///< of the numbers
  double constant;  ///< the one that never changed
  double nearest;   ///< the other one, where it came nearest to the first
  int problem;      ///< the number of the problem in which it did
};

/// A comparison of a constant with a number that is the same in all of a problem's threads, such as
/// a size.
struct SizeTest {
  double constant;                              ///< the one that never changed
  std::vector<std::pair<int, double>> numbers;  ///< a problem, and the number in it
};

/// A line of code, and those behind it.
struct Lines {
  std::string file;  ///< as the compiler was given it
  int first;         ///< from 1
  int last;          ///< the same, for one line
};

/// Whether this build can tell what has run.
bool can_cover();

/// While it lives, code may pass so many places in all: more is taken for a loop that never ends.
/// Unlike seconds, that is the same on a busy machine.
class StepLimit {
 public:
  /// \param steps     so many
  /// \param exceeded  ends the process: a kernel cannot be asked to stop. It is told where the code
  ///                  is, "FILE:LINE", or "" where that is not known.
  StepLimit(std::uint64_t steps, std::function<void(const std::string& place)> exceeded);
  StepLimit(const StepLimit&) = delete;  ///< it ends with its scope
  ~StepLimit();                          ///< from here on, there is none
};

/// Forgets all comparisons: the problems to come are another kernel's.
void forget_comparisons();

/// Begins a problem: what runs from now on is that of the problem with this number, 0 or more.
void cover(int problem);

/// Whether comparisons are noted: not while something else runs than the problem itself.
void note_comparisons(bool noted);

/// The places that have run since cover(), each by a number of its own.
std::vector<std::size_t> covered_places();

/// The comparisons that, in all problems, have not had each of their outcomes: less, equal and
/// greater. A comparison with the few numbers of a table is one for each of them.
std::vector<Threshold> thresholds_not_crossed();

/// Appends the comparisons that were noted in this process, for another copy of it.
void pack_comparisons(Packed& packed);

/// Adds those of another copy of this process to its own. Both may have those from before the copy
/// was made, which count once.
void add_comparisons(Packed& packed);

/// Covered, too: a place that has run in another copy of this process.
void mark_covered(std::size_t place);

/// Does works 0 to count - 1 in a copy of this process, and counts what runs there as run. Nothing
/// else comes of it but the first text that is not empty. A work may end the copy: the next one
/// gets another, and so does one that never ends (StepLimit).
std::string cover_apart(int count, const std::function<std::string(int)>& work);

/// Lets a CUDA call fail, after so many others that are made from now on; if -1, none.
void let_call_fail(int calls_before);

/// The call that failed for that reason since then: "FILE:LINE: cudaMalloc()"; "" if there were not
/// so many calls.
std::string call_that_failed();

/// The lines with code that has not run in any problem until now: of the functions that some
/// problem has entered or, with `every_function`, of all. Not the harness's own, and not what only
/// an exception or abort() leads to. None where the build cannot tell.
std::vector<Lines> lines_never_run(bool every_function);

/// The whole numbers, of more than 2, in the files of the reader's code that these places are in: a
/// remainder decides about a size by one, without a comparison that shows it. None of more than a
/// million.
std::vector<int> numbers_in_sources(const std::vector<std::size_t>& places);

/// The comparisons of integers that depend on the problem alone.
std::vector<SizeTest> size_tests();

}  // namespace rmsnorm
