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
///     04_warp_reduce  decode  16 x 4096  warm  3.41 us +- 0.6%  154 GB/s  93% of copy  PASS
///
/// A lesson on the host has no times: its largest error and the bound stand there. With colour, the
/// verdict is green or red.
std::string result_line(const Result& result, std::string_view remark, bool colour);

/// One line for what cannot run here, with the reason.
std::string skipped_line(std::string_view slug, std::string_view reason);

/// The list of implementations: slug, title, idea.
std::string implementation_list(const std::vector<Implementation>& implementations);

/// The results as a table of at most 100 columns: a line for each implementation and type, a column
/// for each regime and state of the cache, with the time of one launch in decode and % of the copy
/// elsewhere; a "*" behind what was disturbed, and a last line that says so. Sweeps and problems of
/// the reader's own are left out, and fp16, which is like bf16.
/// "" if nothing was timed.
std::string summary(const std::vector<Result>& results);

/// The results without those of variants, which are there for their lesson's page. Wrong ones stay.
std::vector<Result> without_variants(std::vector<Result> results);

/// How many results passed, failed, and were unsupported, as a sentence.
std::string tally(const std::vector<Result>& results);

}  // namespace rmsnorm
