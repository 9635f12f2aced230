#pragma once
/// \file
/// Results as lines that people and grep can read.

#include <string>
#include <string_view>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/records/result.hpp"

namespace rmsnorm {

/// A time with four significant digits at most, and never an exponent: "2.18 us".
std::string microseconds(double us);

/// One aligned line for one result; `remark` is the reason behind a verdict other than
/// Verdict::pass.
///
///     04_warp_reduce  decode  16 x 4096  warm  3.41 us +- 0.6%  154 GB/s  93%  PASS
///
/// The percentage is the share of the roof's bandwidth. Where there is no clock, there are no
/// columns of times; of a lesson on the host, the largest error and the bound stand behind the
/// verdict. With colour, that is green or red.
std::string result_line(const Result& result, std::string_view remark, bool colour);

/// One line for what cannot run here, with the reason.
std::string skipped_line(std::string_view slug, std::string_view reason);

/// The list of implementations: slug, title, idea.
std::string implementation_list(const std::vector<Implementation>& implementations);

/// How many results passed, failed, and were unsupported, as a sentence.
std::string tally(const std::vector<Result>& results);

}  // namespace rmsnorm
