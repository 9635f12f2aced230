#pragma once
/// \file
/// What a run prints, as it goes on and at its end.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/programs/options.hpp"
#include "common/programs/runner.hpp"

namespace rmsnorm {

/// Prints findings on stdout: a line for each or, with Options::summary, for what is wrong alone.
class TerminalOutput {
 public:
  /// The options have to outlive it.
  explicit TerminalOutput(const Options& options) : options_(options) {}

  void add(const Finding& finding);   ///< What is wrong with a kernel is said in full once.
  void add(const Watched& launch);    ///< keeps it for the end
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
  std::set<std::pair<std::string, std::string>> said_;  // wrong kernels and what is wrong
};

}  // namespace rmsnorm
