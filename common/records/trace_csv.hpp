#pragma once
/// \file
/// What the CPU device counted, as comma-separated values: a row for each line of LineCount.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"

namespace rmsnorm {

/// One count of one launch.
struct TraceRow {
  std::string operation;       ///< what was computed
  std::string implementation;  ///< the slug
  std::string regime;          ///< a regime's name, or "custom"
  std::string dtype;           ///< types of the tensors, as a Result's
  std::int64_t rows = 0;       ///< rows of x
  int hidden = 0;              ///< columns of x
  std::string sizes;           ///< the operation's others, as a Result's
  std::int64_t blocks = 0;     ///< of the launch
  LineCount count;             ///< what one line did
  std::string version;         ///< the revision that built the program, "-dirty" if changed
  std::string date;            ///< UTC, YYYY-MM-DD
};

/// Reads a trace file. \throws std::runtime_error with the file, the line and the field that is not
/// as expected; a kind has to be one of kKinds.
std::vector<TraceRow> read_trace(const std::filesystem::path& file);

/// Writes a trace file, as write_records does.
void write_trace(const std::filesystem::path& file, const std::vector<TraceRow>& rows);

}  // namespace rmsnorm
