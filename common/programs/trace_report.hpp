#pragma once
/// \file
/// What the CPU device counted, as tables that people can read.

#include <string>
#include <vector>

#include "common/base/observation.hpp"
#include "common/contract/lesson.hpp"
#include "common/contract/types.hpp"
#include "common/records/row_cost.hpp"

namespace rmsnorm {

/// A launch that was watched.
struct Watched {
  std::string lesson;       ///< the slug
  std::string regime;       ///< its name
  std::int64_t rows = 0;    ///< of x and y
  int hidden = 0;           ///< columns of x and y
  Types types = {};         ///< of the tensors
  Traffic predicted{};      ///< bytes of a row
  Observation observation;  ///< what was counted
};

/// A count as text: all digits of what is whole, two behind the point of what is not.
std::string number(double value);

/// What a row costs, for every lesson, regime after regime. "" if nothing was watched.
std::string cost_table(const std::vector<Watched>& launches);

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
