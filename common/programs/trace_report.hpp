#pragma once
/// \file
/// What the CPU device counted, as tables that people can read.

#include <string>
#include <vector>

#include "common/base/watching.hpp"
#include "common/records/row_cost.hpp"
#include "common/verify/watched.hpp"

namespace rmsnorm {

/// A count as text: all digits of what is whole, two behind the point of what is not.
std::string number(double value);

/// What a row costs, for every implementation, regime after regime. "" if nothing was watched.
std::string cost_table(const std::vector<Watched>& launches);

/// What a row costs in one regime, for every implementation, as fp32 or, if that is not there, the
/// first other type. "" if nothing was watched.
std::string cost_summary(const std::vector<Watched>& launches);

/// What differs, by over one per cent, between the traffic that was predicted and what was counted;
/// "" if nothing does, or if rows do not fill whole sectors: then nothing was predicted.
std::string difference_from_prediction(const Watched& launch);

/// What each source line costs. First the line that wastes most: sectors that a GPU must move
/// though nobody asked for all of their bytes, and passes through the banks that conflicts cost.
/// Then the lines that move most.
std::string line_table(const Watched& launch);

/// The text of the source line that was counted, without its comment, or "" if the file cannot be
/// read.
std::string source_text(const LineCount& count);

/// The words of line_table, explained.
extern const char* const kLineTableLegend;

}  // namespace rmsnorm
