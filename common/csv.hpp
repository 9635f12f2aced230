#pragma once
/// \file
/// Results as comma-separated values (RFC 4180), read and written through libcsv.

#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace rmsnorm {

/// The first line of every results file.
extern const char* const kCsvHeader;

/// Reads a results file.
/// \throws std::runtime_error with the file, the line and the field, if anything is not as expected.
std::vector<Result> read_csv(const std::filesystem::path& file);

/// Writes a results file: to a temporary name beside it first, then renamed, so that the file is
/// whole at any time. \throws std::runtime_error with the file and the reason.
void write_csv(const std::filesystem::path& file, const std::vector<Result>& results);

}  // namespace rmsnorm
