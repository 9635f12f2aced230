#pragma once
/// \file
/// The chart of what the CPU device counted: what a row costs, lesson by lesson.

#include <filesystem>
#include <string>
#include <vector>

#include "common/records/row_cost.hpp"
#include "common/records/trace_csv.hpp"
#include "plots/chart.hpp"

namespace rmsnorm::plots {

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
