#pragma once
/// \file
/// The bar chart of one condition: how fast each implementation is, next to the roofs.

#include <string>
#include <vector>

#include "common/records/result.hpp"
#include "plots/chart.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {

/// The name of a condition's chart: "progression_prefill", and "progression_decode_warm" where the
/// regime was timed in more than one state of the cache.
std::string progression_name(const std::vector<Result>& results, const Condition& condition);

/// The chart of one condition, from the results of one operation: a bar for each implementation
/// that was timed, a word for one that was not. Nothing if none was to be timed.
Chart progression_chart(const std::vector<Result>& results, const Condition& condition);

}  // namespace rmsnorm::plots
