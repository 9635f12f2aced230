#pragma once
/// \file
/// One row of the results: a lesson, a problem, what was measured and where.

#include <cstdint>
#include <optional>
#include <string>

namespace rmsnorm {

/// Above this spread, in %, a result is called noisy.
constexpr double kNoisyPct = 5;

/// The outcome of one lesson on one problem. Numbers that do not apply are empty: a lesson that was
/// only verified has no time, one that refused the problem has no error either.
struct Result {
  std::string lesson;                ///< the slug
  std::string regime;                ///< a regime's name, or "custom"
  std::string dtype = "fp32";        ///< types of the tensors: "bf16", "bf16/fp32" with another
                                     ///< weight, "bf16/none" without
  std::int64_t rows = 0;             ///< rows of x and y
  std::int64_t hidden = 0;           ///< columns of x and y
  std::string cache;                 ///< "cold", "warm", or "" where nothing was timed
  std::optional<double> median_us;   ///< median time of one launch, microseconds
  std::optional<double> spread_pct;  ///< half the 10-90 % range, in % of the median
  int samples = 0;                   ///< timed samples behind the median
  std::optional<double> gbps;        ///< (x once + y once) / median, GB/s; other tensors that have
                                     ///< to be moved count, too
  std::optional<double> copy_gbps;   ///< the best copy of x to y in the same run
  std::optional<double> peak_gbps;   ///< the data sheet's peak of global memory
  double bytes_per_row_predicted = 0;  ///< the lesson's own claim, bytes
  std::optional<double> max_error;     ///< largest relative error of an element of y
  std::optional<double> error_bound;   ///< what rounding can explain at most
  std::string verdict;                 ///< "pass", "fail" or "refused"
  std::string device;                  ///< the GPU's name, or "cpu"
  std::string driver;                  ///< the driver's version
  std::string cuda;                    ///< the toolkit's version that built the program
  std::string commit;                  ///< the revision that built it, "-dirty" if changed
  std::string date;                    ///< UTC, YYYY-MM-DD
};

/// Bytes of x and y together, or of all the tensors of rows in a regime that has others: x, dy and
/// dx of "backward", x, y and the residual twice of "residual_add".
/// \throws std::runtime_error for a dtype of unknown size
double bytes_of_tensors(const Result& result);

/// Whether a time was that of more bytes than bytes_of_tensors(), as with a residual. What the copy
/// reached with fewer bytes is no roof then.
bool moves_more_than_copy(const Result& result);

/// Bandwidth in per cent of the copy's, if both were measured, of as many bytes.
std::optional<double> percent_of_copy(const Result& result);

}  // namespace rmsnorm
