#pragma once
/// \file
/// One row of the results: an implementation, a problem, what was measured and where.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/contract/cache.hpp"

namespace rmsnorm {

/// Above this spread, in %, a result is called noisy.
constexpr double kNoisyPct = 5;

/// What became of an implementation on a problem.
enum class Verdict {
  pass,         ///< every element is right
  fail,         ///< one is not, or something else went wrong
  unsupported,  ///< it cannot do the problem, and says so
};

/// "pass", "fail" or "unsupported".
const char* to_string(Verdict verdict);

/// What held the GPU's clocks down while something was timed.
enum class Disturbance {
  power,  ///< the GPU, or what supplies it, was at the limit of its power
  heat,   ///< the GPU was at the limit of its temperature
};

/// "power" or "heat".
const char* to_string(Disturbance disturbance);

/// "at the power cap" or "at the heat cap", where the GPU was.
const char* in_words(Disturbance disturbance);

/// The outcome of one implementation on one problem. Numbers that do not apply are empty: what was
/// only verified has no time, what is unsupported has no error either.
struct Result {
  std::string operation = "rms_norm";    ///< what was computed
  std::string implementation = {};       ///< by whom: a lesson's slug, "librmsnorm", "torch"
  std::string regime = {};               ///< a regime's name, or "custom"
  std::string dtype = "fp32";            ///< types of the tensors: "bf16", "bf16/fp32" with another
                                         ///< weight, "bf16/none" without
  std::int64_t rows = 0;                 ///< rows of x
  std::int64_t hidden = 0;               ///< columns of x
  std::string sizes = {};                ///< the operation's others: "q_heads=8 k_heads=2"
  std::optional<Cache> cache = {};       ///< empty where nothing was timed
  std::optional<double> median_us = {};  ///< median time of one launch, microseconds
  std::optional<double> spread_pct = {};      ///< half the 10-90 % range, in % of the median
  int samples = 0;                            ///< timed samples behind the median
  std::optional<Disturbance> disturbed = {};  ///< it or the roof, in each repeat
  std::int64_t bytes = 0;                ///< that any implementation has to move: what is counted
  std::optional<double> gbps = {};       ///< bytes / median, GB/s
  std::string roof = {};                 ///< what was moved to find it: "2:1", bytes read to bytes
                                         ///< written; "copy": 1:1, by launches that do not overlap
  std::optional<double> roof_gbps = {};  ///< as many bytes, moved in the same run
  std::optional<double> peak_gbps = {};  ///< the data sheet's peak of global memory
  double bytes_per_row_predicted = 0;    ///< the implementation's own claim, bytes
  std::optional<double> max_error = {};  ///< largest relative error of an element
  std::optional<double> error_bound = {};  ///< what rounding can explain
  Verdict verdict = Verdict::pass;         ///< whether it is right
  std::string device = {};                 ///< the GPU's name, or "cpu"
  std::string driver = {};                 ///< the driver's version
  std::string cuda = {};                   ///< the toolkit's version that built the program
  std::string version = {};  ///< of the implementation: ours is the revision that built
                             ///< it, "-dirty" if changed
  std::string date = {};     ///< UTC, YYYY-MM-DD
};

/// Whether the name is a lesson's, or that of a variant of one.
bool is_lesson(std::string_view implementation);

/// Whether the slug names a second kernel of a lesson, as in "02_naive/thread_per_row".
bool is_variant(std::string_view slug);

/// Bandwidth in per cent of the roof's, if both were measured.
std::optional<double> percent_of_roof(const Result& result);

/// "warm", or "" where nothing was timed.
std::string cache_text(const Result& result);

}  // namespace rmsnorm
