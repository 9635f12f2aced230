#pragma once
/// \file
/// The command line that every lesson program understands.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/contract/regime.hpp"

namespace rmsnorm {

/// What one run is to do.
struct Options {
  std::vector<Implementation> implementations;  ///< in the order of their slugs
  std::vector<Regime> regimes;                  ///< the chosen ones, or one called "custom"
  std::vector<Types> types;                     ///< of the tensors; none: what types_for gives
  std::map<std::string, int> sizes;  ///< beside rows and columns, by their names; else the usual
  float eps = 1e-5f;                 ///< 0 or more
  std::uint64_t seed = 1;            ///< of the random input
  double min_seconds = 0.1;          ///< timed work per result, seconds
  std::optional<Cache> only_cache;   ///< --cold or --warm; else as the regime has it
  std::string csv_file;              ///< "" = write none
  std::string trace_file;            ///< likewise; what the CPU device counted
  bool trace = false;                ///< print what each source line costs ...
  bool trace_all = false;            ///< ... in all chosen regimes, not in the lesson's own alone
  std::optional<double> predicted;   ///< the reader's guess: these are then the predecessor and
                                     ///< the lesson, and `regimes` is the lesson's own
  std::string recorded_file;         ///< results to grade it by where nothing can be timed
  bool verify_only = false;          ///< time nothing
  bool summary = false;              ///< a line for each lesson instead of one for each result
  bool verbose = false;              ///< a line for each result, as soon as it is there
  bool list = false;                 ///< print the lessons only
  bool l2 = false;                   ///< print the size of the L2 cache in MiB, for the charts
};

/// The types in which an implementation is tried in a regime: the chosen ones; if none are, fp32,
/// and in the regimes that are no sweeps also bf16 and fp16, if it knows them; in the sweep over
/// unaligned rows bf16 alone. A prediction is about bf16, or about fp32 if the lesson before does
/// not support that.
std::vector<Types> types_for(
    const Options& options, const Implementation& implementation, const Regime& regime);

/// The options, or the exit code if there is nothing left to do: after --help 0, after a mistake 2.
struct ParsedOptions {
  Options options;               ///< what was asked for
  std::optional<int> exit_code;  ///< if the program is to end now
};

/// Reads the command line of a program with these implementations. A mistake becomes one sentence
/// on stderr.
ParsedOptions parse_options(
    int argc, const char* const* argv, const std::vector<Implementation>& implementations);

}  // namespace rmsnorm
