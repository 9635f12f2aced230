#pragma once
/// \file
/// Files that change a kernel, NAME.edit; cmake/Edits.cmake has the format. The head of each says
/// what it is, and what has to come of it:
///
///     Mutant: forgets eps
///     In lessons/02_naive/rms_norm.cu:
///     Rejected on 1 x 1: row 0, column 0: expected
///     By a GPU on 7 x 37: row 0, column 0: expected
///
/// A line that begins with two blanks goes on with the one before. These entries are what `check`
/// says, copied from there, without the place in a file (test_mutants.cpp):
///
///     Rejected on PROBLEM: TEXT   the first problem that shows it, if that is always one, and a
///                                 part of the first complaint
///     Advised: TEXT               where it says "no mistake was seen on the way", what follows, if
///                                 that is not what it says of most (test_mutants.cpp)
///     Not checked: TEXT           no problem leads there, and that is said
///     By a GPU on PROBLEM: TEXT   if a GPU shows something else
///     By a GPU with room: TEXT    likewise, if it has memory for more than 2^31 elements
///     By a GPU: at times          it depends on who comes first
///     By a GPU: never             it tells neither what has run nor what a launch asks of it
///     By a GPU: not asked         it could not be stopped
///     Ended on PROBLEM: TEXT      code that never ends, after 5 million steps
///     Cannot run: TEXT            what the CPU device has not
///     Right:                      it is accepted. These are twins of wrong ones: they do as much
///     Right on PROBLEM:           likewise, and on this problem alone, which takes less time
///
/// (tests/chosen_never.edit is a program of its own: test_check.cpp.) And of what an exercise says
/// of a way round its idea (test_exercises.cpp):
///
///     Goal missed: TEXT           it is right, and a goal is not reached
///     Rejected: TEXT              it is wrong
///
/// `Operation: STRUCT` names the operation where a file has kernels of several.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tests {

/// An edit's head.
struct Edit {
  std::filesystem::path file;  ///< "tests/edits/eps_hard_coded.edit"
  /// Its entries, in their order, as "Rejected on 1 x 1" and what is said.
  std::vector<std::pair<std::string, std::string>> head;

  /// "eps_hard_coded".
  std::string name() const { return file.stem().string(); }
};

/// What an entry of a head has.
struct Entry {
  std::string on;         ///< the problem behind its name: "1 x 1"; "" if none is named
  std::string text;       ///< what has to be said; MISTAKE, SEEN and OTHER are "FILE:LINE" of marks
  bool is_there = false;  ///< whether the head has it
};

/// The entry of that name: "Rejected".
Entry entry_of(const Edit& edit, const std::string& name);

/// All edits of a folder of this repository, by their names.
std::vector<Edit> edits_in(const std::filesystem::path& folder);

}  // namespace tests
