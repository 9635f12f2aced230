#pragma once
/// \file
/// What became of the mutants that tests/mutation/mutate.py made, and its tables in the pages.

#include <filesystem>
#include <string>
#include <vector>

namespace rmsnorm::plots {

/// How many mutants of a lesson, made by an operator, had a verdict.
struct MutantCount {
  std::string lesson;
  std::string by;  ///< the operator: "constant"
  std::string verdict;
  int mutants = 0;
};

/// Reads a file that mutate.py wrote. \throws std::runtime_error with the file and the line.
std::vector<MutantCount> read_mutant_counts(const std::filesystem::path& file);

/// The table that "mutants lessons" or "mutants operators" asks for: a row for each of them, and
/// one for all. \throws std::runtime_error for other words, and for a verdict that is unknown.
std::string make_mutants_table(
    const std::vector<MutantCount>& counts, const std::vector<std::string>& words);

}  // namespace rmsnorm::plots
