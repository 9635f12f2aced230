#pragma once
/// \file
/// Tables in Markdown.

#include <string>
#include <vector>

namespace rmsnorm::plots {

/// What stands in a cell that has nothing to show.
inline constexpr const char* kNothing = "-";

/// The texts of a row's cells.
using TableRow = std::vector<std::string>;

/// The first row is the header; all columns but the first are aligned to the right.
std::string markdown_table(const std::vector<TableRow>& rows);

/// The text as Markdown's code.
std::string code(const std::string& text);

}  // namespace rmsnorm::plots
