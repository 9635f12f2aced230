#pragma once
/// \file
/// What a run leaves in files.

#include <vector>

#include "common/programs/options.hpp"
#include "common/records/result.hpp"
#include "common/records/trace_csv.hpp"
#include "common/verify/watched.hpp"

namespace rmsnorm {

/// Results and counts for the files that the options name.
class FileOutput {
 public:
  /// The options have to outlive it. \throws std::runtime_error if a file cannot be written
  explicit FileOutput(const Options& options);

  void add(const Result& result);   ///< keeps a result
  void add(const Watched& launch);  ///< keeps the counts of a launch
  void save() const;                ///< writes what there is. \throws std::runtime_error

 private:
  const Options& options_;
  std::vector<Result> results_;
  std::vector<TraceRow> counts_;
};

}  // namespace rmsnorm
