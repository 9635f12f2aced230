#pragma once
/// \file
/// How the CPU device's functions of numbers differ from a GPU's, and what the pages say of it.

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

}  // namespace rmsnorm::plots
