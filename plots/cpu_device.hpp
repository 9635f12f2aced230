#pragma once
/// \file
/// What the pages say of the CPU device: how its functions of numbers differ from a GPU's, and what
/// became of the mutants that its check was given.

#include <filesystem>
#include <string>
#include <vector>

namespace rmsnorm::plots {

/// A row of arithmetic.csv, which common/cpu_device/tests/arithmetic prints.
struct ComparedFunction {
  std::string function;  ///< in CUDA or PTX
  int values = 0;        ///< it was given
  int different = 0;     ///< results with other bits
  int nans = 0;          ///< of these: both are NaN
  int kinds = 0;         ///< of these: one is NaN
  long long steps = 0;   ///< of the others: the most steps from one value to the next
  double size = 0;       ///< of the others, if finite: the largest difference
  std::string digest;    ///< of the CPU device's results
  std::string device;    ///< the GPU
  std::string version;   ///< the commit
};

/// \throws std::runtime_error if the file is malformed.
std::vector<ComparedFunction> read_compared_functions(const std::filesystem::path& file);

/// Which functions give the same bits, which the same but for a NaN, and a table of the others.
std::string make_arithmetic_table(const std::vector<ComparedFunction>& functions);

/// How many mutants of a lesson, made by an operator of tests/mutation/mutate.py, had a verdict.
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
