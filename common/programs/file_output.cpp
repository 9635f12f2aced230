#include "common/programs/file_output.hpp"

#include <fmt/chrono.h>

#include <ctime>

#include "common/base/build_info.hpp"
#include "common/base/files.hpp"
#include "common/records/csv.hpp"

namespace rmsnorm {

FileOutput::FileOutput(const Options& options) : options_(options) {
  for (const std::string& file : {options.csv_file, options.trace_file}) {
    if (!file.empty()) require_writable(file);
  }
}

void FileOutput::add(const Result& result) {
  results_.push_back(result);
}

void FileOutput::add(const Watched& launch) {
  for (const LineCount& count : launch.observation.lines) {
    counts_.push_back(
        {.operation = launch.operation,
         .implementation = launch.implementation,
         .regime = launch.regime,
         .dtype = to_string(launch.types),
         .rows = launch.rows,
         .hidden = launch.hidden,
         .blocks = launch.observation.blocks,
         .count = count,
         .version = build_commit(),
         .date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))});
  }
}

void FileOutput::save() const {
  if (!options_.csv_file.empty() && !results_.empty()) write_csv(options_.csv_file, results_);
  if (!options_.trace_file.empty() && !counts_.empty()) write_trace(options_.trace_file, counts_);
}

}  // namespace rmsnorm
