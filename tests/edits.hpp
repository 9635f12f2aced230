#pragma once
/// \file
/// Files that change a kernel, NAME.edit: how edits.cmake applies one is said there. The head of
/// each says what it is, and what has to come of it:
///
///     Mutant: forgets eps
///     In lessons/02_naive/rms_norm.cu:
///     Rejected on 1 x 1: row 0, column 0: expected
///     Advised: is an index or a bound of a loop off, or the formula wrong?
///     By a GPU on 7 x 37: row 0, column 0: expected
///
/// A line that begins with two blanks goes on with the one before.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tests {

/// An edit's head.
struct Edit {
  std::filesystem::path file;  ///< "tests/mutants/eps_missing.edit"
  /// Its entries, in their order, as "Rejected on 1 x 1" and what is said.
  std::vector<std::pair<std::string, std::string>> head;

  /// "eps_missing".
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
