#pragma once
/// \file
/// All charts: of the lessons' results, of what peers.py measured, of bytes in flight, and of the
/// CPU device's counts.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/records/result.hpp"
#include "common/records/row_cost.hpp"
#include "common/records/trace_csv.hpp"
#include "plots/chart.hpp"
#include "plots/limits.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {

// --- the results, a bar for each implementation

/// The name of a condition's chart: "progression_prefill", and "progression_decode_warm" where the
/// regime was timed in more than one state of the cache.
std::string progression_name(const std::vector<Result>& results, const Condition& condition);

/// The chart of one condition, from the results of one operation: a bar for each implementation
/// that was timed, a word for one that was not. Nothing if none was to be timed.
Chart progression_chart(const std::vector<Result>& results, const Condition& condition);

// --- sweeps

/// What changes along a sweep's x axis.
struct Sweep {
  const char* regime;
  std::int64_t Result::*x;  ///< rows or hidden
  const char* x_name;
  const char* constant;  ///< what stays the same
};

/// The sweep over the number of rows, all of one length.
inline constexpr Sweep kOverRows{"sweep_rows", &Result::rows, "rows", "hidden 4096"};

/// The sweep over the rows' length, with about the same number of elements everywhere.
inline constexpr Sweep kOverHidden{
    "sweep_hidden", &Result::hidden, "hidden", "about 67 million elements"};

/// Bandwidth along a sweep, a line for each implementation and one for the copy; nothing if the
/// results hold no time of that sweep. If `l2_mib` is given, a mark shows where x and y fill it.
std::optional<Chart> sweep_chart(
    const std::vector<Result>& results, const Sweep& sweep, std::optional<double> l2_mib);

/// The largest error along a sweep, a line for each implementation, and the bounds to keep;
/// nothing if the results hold no error of that sweep. Bounds that are the same share a line.
std::optional<Chart> error_chart(const std::vector<Result>& results, const Sweep& sweep);

// --- what peers.py measured

/// Bandwidth over the rows' length, forward in bf16 where it is a power of two: a line for each
/// implementation and one for the copy. Nothing if no such case was timed.
std::optional<Chart> peers_forward_chart(const std::vector<Result>& results);

/// The time of a launch where rows are few, in bars. Nothing if no such case was timed.
std::optional<Chart> peers_decode_chart(const std::vector<Result>& results);

/// The share of the copy's bandwidth in all other cases, in bars. Nothing if there are none.
std::optional<Chart> peers_other_chart(const std::vector<Result>& results);

// --- bytes in flight

/// What kernels reach over what they have in flight: a dot for each in each regime, in fp32 and
/// bf16, and Little's law with the shortest time of all. Nothing if there are none. The chart
/// points to what they point to.
std::optional<Chart> limits_chart(const std::vector<Limit>& limits);

// --- the CPU device's counts

/// What a row costs an implementation.
struct CountedCost {
  std::string implementation;
  RowCost cost;
};

/// Reads a trace file for charts of an operation with fp32 tensors.
/// \throws std::runtime_error as read_trace does; also if there is no row, if a launch has no rows
/// or no columns, if one count stands there twice, or if a regime has launches of different shapes.
std::vector<TraceRow> load_trace(const std::filesystem::path& file, const std::string& operation);

/// The regimes in which at least two lessons were counted, in the order of the file, without
/// sweeps.
std::vector<std::string> counted_regimes(const std::vector<TraceRow>& trace);

/// What a row costs in one regime, by each implementation that is no variant, sorted.
std::vector<CountedCost> row_costs(const std::vector<TraceRow>& trace, const std::string& regime);

/// The chart of one regime: four panels of bars, one bar for each implementation.
/// \throws std::runtime_error if the trace holds nothing of that regime
Chart counts_chart(const std::vector<TraceRow>& trace, const std::string& regime);

}  // namespace rmsnorm::plots
