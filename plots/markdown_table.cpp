#include "plots/markdown_table.hpp"

#include <fmt/format.h>

namespace rmsnorm::plots {

std::string markdown_table(const std::vector<TableRow>& rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("| {} |\n", fmt::join(rows[i], " | "));
    if (i > 0) continue;
    text += "|---|";
    for (std::size_t column = 1; column < rows[i].size(); ++column) text += "---:|";
    text += "\n";
  }
  return text;
}

std::string code(const std::string& text) {
  return "`" + text + "`";
}

}  // namespace rmsnorm::plots
