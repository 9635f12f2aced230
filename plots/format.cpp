#include "plots/format.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <utility>

namespace rmsnorm::plots {
namespace {

/// A number as a multiple of 1024^unit, with the largest unit up to 3 that leaves no fraction.
std::pair<std::int64_t, std::size_t> in_binary_unit(std::int64_t number) {
  constexpr std::int64_t kKibi = 1024;
  std::size_t unit = 0;
  for (; unit < 3 && number >= kKibi && number % kKibi == 0; ++unit) number /= kKibi;
  return {number, unit};
}

}  // namespace

std::string microseconds(double us) {
  return fmt::format("{:.{}f} µs", us, us < 10 ? 2 : us < 100 ? 1 : 0);
}

std::string without_unit(const std::string& text) {
  return text.substr(0, text.find(' '));
}

std::string gigabytes_per_second(double gbps) {
  return fmt::format("{:.{}f} GB/s", gbps, gbps < 10 ? 1 : 0);
}

std::string percent(double pct) {
  return fmt::format("{:.{}f} %", pct, pct < 10 ? 1 : 0);
}

std::string factor(double times) {
  return fmt::format("{:.{}f}", times, times < 10 ? 2 : 1);
}

std::string binary_count(std::int64_t count) {
  const auto [number, unit] = in_binary_unit(count);
  return fmt::format("{}{}", number, std::array{"", "k", "M", "G"}[unit]);
}

std::string binary_bytes(std::int64_t bytes) {
  const auto [number, unit] = in_binary_unit(bytes);
  return fmt::format("{} {}", number, std::array{"bytes", "KiB", "MiB", "GiB"}[unit]);
}

std::string kibibytes(double bytes) {
  constexpr double kKiB = 1024;
  return fmt::format("{:.{}f} KiB", bytes / kKiB, bytes < 10 * kKiB ? 1 : 0);
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
