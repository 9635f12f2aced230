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

/// One aligned line for one result; `remark` is the reason behind a verdict other than "pass".
///
///     04_warp_reduce  decode  16 x 4096  warm  3.41 us +- 0.6%  154 GB/s  93% of copy  PASS
///
/// With colour, the verdict is green or red.
std::string result_line(const Result& result, std::string_view remark, bool colour);

/// One line for a lesson that cannot run here, with the reason.
std::string skipped_line(const Lesson& lesson, std::string_view reason);

/// One line, or more, for a lesson that is wrong, with the reason.
std::string failed_line(const Lesson& lesson, std::string_view reason);

/// The list of lessons: slug, title, idea.
std::string lesson_list(const std::vector<Lesson>& lessons);

/// The results as a table, lessons x regimes: % of the copy, and microseconds where a launch takes
/// less than 100. Sweeps are left out. "" if fewer than two regimes were timed.
std::string summary(const std::vector<Result>& results);

/// Says on a terminal's stderr what is going on, in a line that the next one replaces.
void progress(std::string_view what);
/// Takes that line away.
void end_progress();

/// Whether a stream is a terminal whose user did not ask for NO_COLOR.
bool wants_colour(int file_descriptor);

}  // namespace rmsnorm
