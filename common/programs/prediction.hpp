#pragma once
/// \file
/// The reader's prediction of what a lesson gains over its predecessor, and how it is graded.

#include <string>
#include <string_view>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/contract/regime.hpp"
#include "common/records/result.hpp"

namespace rmsnorm {

/// The two kernels that a prediction compares: the predecessor of the one lesson that was chosen,
/// and that lesson. (Variants that were chosen along with it do not count.) The predecessor is the
/// lesson that it says it starts from, or else the last one on the device before it that does the
/// same operation; the first one follows its own first variant. Both lists are in the order of
/// their slugs.
/// \throws std::runtime_error with one sentence, if the lesson is about no speed, `all` does not
/// hold what came before it, or not one lesson was chosen.
std::vector<Implementation> predecessor_and_lesson(
    const std::vector<Implementation>& all, const std::vector<Implementation>& chosen);

/// What to say about a guess of before.median_us / after.median_us; both results have been timed.
/// A guess is right within a tenth of the gain (or a hundredth of the factor, or both spreads), and
/// close within three tenths (or three hundredths). A factor that the spreads can explain is no
/// change.
std::string grade(double guess, const Result& before, const Result& after);

/// The graded prediction of `after` over `before` in a regime, in bf16 where a lesson knows it, by
/// these results of one run: whose measurement it is, a line for each state of the cache that the
/// regime has, and where the reason is discussed. `whose` is "recorded" or "measured now".
/// \throws std::runtime_error with one sentence, if a result is missing, did not pass, was not
/// timed, or is of another run or shape than the others.
std::string graded_prediction(
    double guess, const std::string& before, const std::string& after, const Regime& regime,
    const std::vector<Result>& results, std::string_view whose);

}  // namespace rmsnorm
