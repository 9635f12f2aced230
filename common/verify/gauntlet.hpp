#pragma once
/// \file
/// Everything that a kernel has to get through before anybody calls it right.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/verify/attempts.hpp"
#include "common/verify/watched.hpp"

namespace rmsnorm {

/// One line, or more, for a kernel that is wrong, with the reason.
std::string failed_line(std::string_view slug, std::string_view reason);

/// How an implementation came through.
struct GauntletResult {
  std::string complaint = {};             ///< the verifier's first; "" if it has none
  std::vector<std::string> hazards = {};  ///< the device's complaints, of which that is the first
  std::string advice = {};       ///< where to look if the complaint does not say; "" if it does
  std::string where = {};        ///< the last problem that it has run on: "3 x 1000, seed 2"
  int right = 0;                 ///< problems that were solved
  int drawn = 0;                 ///< problems that were random ones
  int unsupported = 0;           ///< and those that are not supported
  std::string last_reason = {};  ///< why the last of those is not
  std::map<std::string, int> reasons = {};  ///< why they are not, and how many each
  /// What needs no trying, and why, or relies on more than CUDA promises: one line each.
  std::vector<std::string> notes = {};
  std::string not_tried = {};  ///< what could not be tried, and why; "" if all that is needed was
  std::vector<Watched> launches = {};  ///< those of GauntletLimits::counted that could be watched

  bool ok() const { return complaint.empty(); }  ///< whether the kernel is right
  void add_note(const std::string& note) {       ///< if it is new
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  }
};

/// How far the gauntlet goes.
struct GauntletLimits {
  /// That the CPU device may take for a problem (StepLimit).
  std::uint64_t steps_for_one = 500'000'000;
  /// Whether to go beyond 2^31 elements: as a whole, where a GPU has the memory, else in part.
  bool beyond_32_bits = true;
  /// Further problems, whose launches are kept: for what is counted there.
  std::vector<Counted> counted = {};
  /// Of the random problems.
  std::uint64_t seed = 1;
  /// Whether all kernels of the program are tried: then every function has to run.
  bool every_function = false;
  /// The text of the one problem to run; "" for all.
  std::string only = {};
  /// The line about a kernel without an end.
  std::string (*failed)(std::string_view slug, std::string_view why) = failed_line;
};

/// A result that is not ok() in words: where, what the device saw or what is wrong, advice.
std::string text_of(const GauntletResult& result);

/// How many problems it does not support, and the reason of most; or "". Reasons that differ in
/// their numbers alone are one.
std::string text_of_unsupported(const GauntletResult& result);

/// The lines that none of so many problems, those of all gauntlets until now, has run, where the
/// device can tell: nobody knows whether they are right. One line of text for each; "" if there are
/// none.
/// \param every_function  as lines_never_run() has it (cpu_device/interface)
/// \param problems        how many there were
std::string text_of_lines_never_run(bool every_function, int problems);

/// Runs the implementation, watched, on a sweep of shapes, and then with other seeds, other eps,
/// other alignments and other values, NaN and Inf among them, and with very many elements. Those
/// that know other types get fewer shapes, and the other numbers, in each of those. Ends at the
/// first complaint; to support no problem is one, too. On the CPU device, a problem without an end
/// ends the program, with a line on stdout and kLessonWrong (base/exit_code.hpp).
/// \throws CudaError if the kernel costs us the GPU.
GauntletResult run_gauntlet(
    const Implementation& implementation, const GauntletLimits& limits = {});

}  // namespace rmsnorm
