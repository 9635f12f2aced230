#pragma once
/// \file
/// What a run prints and leaves in files, as it goes on and at its end.

#include <set>
#include <string>
#include <string_view>
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

/// Takes what a run finds, as soon as it is found, for a table at its end, and for the files that
/// the options name. With Options::verbose, prints a line on stdout for each result at once.
class Output {
 public:
  /// The options have to outlive it. \throws std::runtime_error if a file cannot be written
  explicit Output(const Options& options);

  void add(const Finding& finding);  ///< What is wrong with a kernel is said in full once.
  void add(const Watched& launch);   ///< keeps what the CPU device counted
  void add_note(std::string note);   ///< keeps a sentence for the end
  void save() const;                 ///< writes the files. \throws std::runtime_error
  void print_end() const;            ///< a table of what was found; what is wrong comes last
  bool is_any_wrong() const { return !wrong_.empty(); }            ///< whether any kernel is
  const std::vector<Result>& results() const { return results_; }  ///< all that were added

 private:
  void print(std::string_view text) const;
  std::string fewer_rows() const;
  std::string unsupported() const;
  std::string what_is_wrong() const;
  void print_traces() const;
  bool is_own_regime(const Watched& launch) const;

  const Options& options_;
  std::vector<Result> results_;
  std::vector<Watched> watched_;
  std::vector<std::string> notes_;
  std::vector<std::string> wrong_;                                // lines, in the order of results_
  std::vector<std::pair<std::string, std::string>> unsupported_;  // kernels and reasons, each once
  const std::string date_ = today();                    // of the whole run, which may pass midnight
  std::set<std::pair<std::string, std::string>> said_;  // wrong kernels and what is wrong
};

}  // namespace rmsnorm
