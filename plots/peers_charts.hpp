#pragma once
/// \file
/// The charts of what peers.py measured.

#include <optional>
#include <vector>

#include "common/records/result.hpp"
#include "plots/chart.hpp"

namespace rmsnorm::plots {

/// Bandwidth over the rows' length, forward in bf16 where it is a power of two: a line for each
/// implementation and one for the copy. Nothing if no such case was timed.
std::optional<Chart> peers_forward_chart(const std::vector<Result>& results);

/// The time of a launch where rows are few, in bars. Nothing if no such case was timed.
std::optional<Chart> peers_decode_chart(const std::vector<Result>& results);

/// The share of the copy's bandwidth in all other cases, in bars. Nothing if there are none.
std::optional<Chart> peers_other_chart(const std::vector<Result>& results);

}  // namespace rmsnorm::plots
