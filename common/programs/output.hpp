#pragma once
/// \file
/// What a run prints and leaves in files, as it goes on and at its end.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/programs/options.hpp"
#include "common/records/result.hpp"
#include "common/records/trace_csv.hpp"
#include "common/verify/watched.hpp"

namespace rmsnorm {

/// Today's date, UTC, YYYY-MM-DD.
std::string today();

/// A result, and what is to be said of it.
struct Finding {
  Result result;                          ///< as it is recorded
  std::string remark = {};                ///< why it is as it is; "" if there is nothing to say
  std::vector<std::string> hazards = {};  ///< what the CPU device saw
};

/// Takes what a run finds, as soon as it is found. Prints a line on stdout for each result or, with
/// Options::summary, for what is wrong alone; keeps everything for the files that the options name.
class Output {
 public:
  /// The options have to outlive it. \throws std::runtime_error if a file cannot be written
  explicit Output(const Options& options);

  void add(const Finding& finding);   ///< What is wrong with a kernel is said in full once.
  void add(const Watched& launch);    ///< keeps what the CPU device counted
  void save() const;                  ///< writes the files. \throws std::runtime_error
  void print_end() const;             ///< tables of what was found
  std::string what_is_wrong() const;  ///< one line with every wrong kernel, or ""
  const std::vector<Result>& results() const { return results_; }  ///< all that were added

 private:
  std::vector<Watched> right_ones() const;
  void print_traces() const;
  bool is_own_regime(const Watched& launch) const;

  const Options& options_;
  std::vector<Result> results_;
  std::vector<Watched> watched_;
  const std::string date_ = today();                    // of the whole run, which may pass midnight
  std::set<std::pair<std::string, std::string>> said_;  // wrong kernels and what is wrong
};

}  // namespace rmsnorm
