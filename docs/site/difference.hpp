#pragma once
/// \file
/// The difference of two texts, line by line, and how it is shown.

#include <cstddef>
#include <string>
#include <vector>

namespace rmsnorm::site {

/// One line of two texts laid side by side.
struct DifferenceLine {
  enum class Kind { both, removed, added };
  Kind kind;
  std::size_t old_number;  ///< from 1; 0 if the line was added
  std::size_t new_number;  ///< from 1; 0 if the line was removed
  std::string text;
};

/// The lines of both texts in order, with as few removed and added ones as possible.
std::vector<DifferenceLine> difference_of(
    const std::vector<std::string>& before, const std::vector<std::string>& after);

/// How many lines were added or removed.
std::size_t count_of(const std::vector<DifferenceLine>& lines, DifferenceLine::Kind kind);

/// The difference as HTML tables, every line of both texts in them. Long runs of unchanged lines
/// are folded away.
std::string difference_html(const std::vector<DifferenceLine>& lines);

}  // namespace rmsnorm::site
