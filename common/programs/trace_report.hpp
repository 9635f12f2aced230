#pragma once
/// \file
/// What the CPU device counted, as tables that people can read.

#include <string>

#include "common/cpu_device/interface/watching.hpp"
#include "common/records/row_cost.hpp"
#include "common/verify/watched.hpp"

namespace rmsnorm {

/// A count as text: all digits of what is whole, two behind the point of what is not.
std::string number(double value);

/// Whether the traffic of the launch was predicted: that is for rows that fill whole sectors.
bool is_predicted(const Watched& launch);

/// What differs, by over one per cent, between the traffic that was predicted and what was counted;
/// "" if nothing does, or if nothing was predicted.
std::string difference_from_prediction(const Watched& launch);

/// What each source line costs. First the line that wastes most: sectors that a GPU must move
/// though nobody asked for all of their bytes, and passes through the banks that conflicts cost.
/// Then the lines that move most. No line has more columns than that.
std::string line_table(const Watched& launch, int columns);

/// The text of the source line that was counted, without its comment, or "" if the file cannot be
/// read.
std::string source_text(const LineCount& count);

/// The words of line_table, explained.
extern const char* const kLineTableLegend;

}  // namespace rmsnorm
