#pragma once
/// \file
/// The tables of the pages, in Markdown, from the results.

#include <string>
#include <vector>

#include "common/records/result.hpp"

namespace rmsnorm::plots {

/// The table that the words behind "results:begin" ask for, with a line on where it was measured:
///
///     ladder OPERATION       every implementation without variants; % of the roof in four regimes,
///                            the time of the fifth; for the README at the top: from there its
///                            links to lessons are right
///     best OPERATION         for each shape, the first lesson that is as fast as the fastest, with
///                            less than a per cent between them, and librmsnorm; in fp32 and bf16
///     lesson [spread] [TYPE...] [REGIME...] SLUG...
///                            the given ones; time, bandwidth and % of the roof, for every type
///                            and in every regime, or for those that stand in front; every spread
///                            where that word stands, else those that are large
///     errors SLUG...         the given ones; largest error and its bound over hidden
///     unaligned SLUG...      the given ones; time and % of the roof of odd rows and of those
///                            beside them
///     long SLUG...           the given ones; time and % of the roof of the longest rows over
///                            hidden
///
/// Behind the time of what was disturbed stands a mark, and below the table what the mark says.
///
/// A table is of one operation, that of the first slug; but for variants, and for a slug with its
/// own behind it: "10_half_precision:rms_norm".
///
/// Ends with a newline.
/// \throws std::runtime_error if there is no such kind, if a word is missing or one too many, or if
/// the results say nothing about it.
std::string make_table(const std::vector<Result>& results, const std::vector<std::string>& words);

}  // namespace rmsnorm::plots
