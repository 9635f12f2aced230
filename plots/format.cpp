#include "plots/format.hpp"

#include <fmt/format.h>

namespace rmsnorm::plots {

std::string microseconds(double us) {
  return fmt::format("{:.{}f} µs", us, us < 10 ? 2 : us < 100 ? 1 : 0);
}

std::string gigabytes_per_second(double gbps) {
  return fmt::format("{:.{}f} GB/s", gbps, gbps < 10 ? 1 : 0);
}

std::string percent(double pct) {
  return fmt::format("{:.{}f} %", pct, pct < 10 ? 1 : 0);
}

std::string binary_count(std::int64_t count) {
  constexpr std::int64_t kKibi = 1024;
  if (count >= kKibi && count % kKibi == 0) return fmt::format("{}k", count / kKibi);
  return fmt::format("{}", count);
}

std::string markdown_table(const std::vector<TableRow>& rows) {
  std::string text;
  for (const TableRow& row : rows) {
    text += fmt::format("| {} |\n", fmt::join(row, " | "));
    if (&row != &rows.front()) continue;
    text += "|---|";
    for (std::size_t column = 1; column < row.size(); ++column) text += "---:|";
    text += "\n";
  }
  return text;
}

std::string code(const std::string& text) {
  return "`" + text + "`";
}

}  // namespace rmsnorm::plots
