#pragma once
/// \file
/// Results as comma-separated values (RFC 4180), read and written through libcsv.

#include <filesystem>
#include <string>
#include <vector>

#include "common/records/result.hpp"

namespace rmsnorm {

/// The lines of a CSV file after its first, each split into its fields.
/// \throws std::runtime_error with the file and the line, if the first is not `header` or another
/// has more or fewer fields.
std::vector<std::vector<std::string>> read_records(
    const std::filesystem::path& file, const std::string& header);

/// Writes what read_records reads; fields are quoted where they must be. The text goes to a
/// temporary name beside the file first, then is renamed, so that the file is whole at any time.
/// \throws std::runtime_error with the file and the reason.
void write_records(
    const std::filesystem::path& file, const std::string& header,
    const std::vector<std::vector<std::string>>& records);

/// Reads a results file.
/// \throws std::runtime_error with the file, the line and the field that is not as expected.
std::vector<Result> read_csv(const std::filesystem::path& file);

/// Writes a results file, as write_records does.
void write_csv(const std::filesystem::path& file, const std::vector<Result>& results);

}  // namespace rmsnorm
