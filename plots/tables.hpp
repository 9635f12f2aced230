#pragma once
/// \file
/// The tables of the pages, in Markdown, from the results.

#include <string>
#include <vector>

#include "common/records/result.hpp"

namespace rmsnorm::plots {

/// The table that the words behind "results:begin" ask for, with a line on where it was measured:
///
///     ladder                every kernel; % of copy in four regimes, the time of the fifth; for
///                           the README at the top: from there its links to lessons are right
///     lesson SLUG...        the given kernels; time, bandwidth and % of copy in every regime
///     errors SLUG...        the given kernels; largest error and its bound over hidden
///
/// Ends with a newline.
/// \throws std::runtime_error if there is no such kind, if a slug is missing or one too many, or if
/// the results say nothing about it.
std::string make_table(const std::vector<Result>& results, const std::vector<std::string>& words);

}  // namespace rmsnorm::plots
