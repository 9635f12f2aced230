#pragma once
/// \file
/// The charts over a sweep: bandwidth and error as the shape changes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/records/result.hpp"
#include "plots/chart.hpp"

namespace rmsnorm::plots {

/// Rows or hidden of a result.
using Extent = std::int64_t Result::*;

/// What changes along a sweep's x axis.
struct Sweep {
  std::string regime;
  Extent x;
  std::string x_name;
  std::string constant;  ///< what stays the same
};

/// The sweep over the number of rows, all of one length.
const Sweep& sweep_over_rows();

/// The sweep over the rows' length, with about the same number of elements everywhere.
const Sweep& sweep_over_hidden();

/// Bandwidth along a sweep, a line for each implementation and one for the copy; nothing if the
/// results hold no time of that sweep. If `l2_mib` is given, a mark shows where x and y fill it.
std::optional<Chart> sweep_chart(
    const std::vector<Result>& results, const Sweep& sweep, std::optional<double> l2_mib);

/// The largest error along a sweep, a line for each implementation, and the bounds to keep;
/// nothing if the results hold no error of that sweep. Bounds that are the same share a line.
std::optional<Chart> error_chart(const std::vector<Result>& results, const Sweep& sweep);

}  // namespace rmsnorm::plots
