#include "common/programs/report.hpp"

#include <fmt/color.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "common/contract/types.hpp"

namespace rmsnorm {
namespace {

std::string verdict_text(const Result& result, bool colour) {
  std::string text = result.verdict;
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
  });
  if (!colour) return text;
  const auto shade = result.verdict == "pass"   ? fmt::terminal_color::green
                     : result.verdict == "fail" ? fmt::terminal_color::red
                                                : fmt::terminal_color::yellow;
  return fmt::format(fmt::fg(shade), "{}", text);
}

std::string time_columns(const Result& r) {
  if (!r.median_us) return fmt::format("{:44}", "not timed");
  const auto pct = percent_of_copy(r);
  return fmt::format(
      "{:>9} +-{:4.1f}% {:>7.0f} GB/s {:>5} of copy", microseconds(*r.median_us),
      r.spread_pct.value_or(0), r.gbps.value_or(0), pct ? fmt::format("{:.0f}%", *pct) : "-");
}

}  // namespace

std::string microseconds(double us) {
  return fmt::format("{:.{}f} us", us, us < 10 ? 2 : us < 100 ? 1 : 0);
}

std::string result_line(const Result& r, std::string_view remark, bool colour) {
  std::string line = fmt::format(
      "{:27} {:12} {:>7} x {:<6} {:5} {}  {}", r.lesson, with_dtype(r.regime, r.dtype), r.rows,
      r.hidden, r.cache, time_columns(r), verdict_text(r, colour));
  if (r.spread_pct.value_or(0) > kNoisyPct) line += "  noisy";
  if (!remark.empty()) line += fmt::format("  {}", remark);
  return line;
}

std::string skipped_line(const Lesson& lesson, std::string_view reason) {
  return fmt::format("{:27} cannot run: {}", lesson.slug, reason);
}

std::string failed_line(const Lesson& lesson, std::string_view reason) {
  return fmt::format("{:27} FAIL  {}", lesson.slug, reason);
}

std::string lesson_list(const std::vector<Lesson>& lessons) {
  std::string list;
  for (const Lesson& lesson : lessons) {
    list += fmt::format("{:27} {:29} {}\n", lesson.slug, lesson.title, lesson.idea);
  }
  return list;
}

std::string summary(const std::vector<Result>& results) {
  std::vector<std::string> columns;
  std::map<std::string, std::map<std::string, std::string>> cells;  // by lesson, by column
  for (const Result& r : results) {
    if (r.regime.rfind("sweep", 0) == 0 || !r.peak_gbps) continue;
    const std::string column = fmt::format("{} {}", with_dtype(r.regime, r.dtype), r.cache);
    if (std::find(columns.begin(), columns.end(), column) == columns.end())
      columns.push_back(column);
    std::string& cell = cells[r.lesson][column];
    cell = r.verdict;
    if (!r.median_us) continue;
    const auto pct = percent_of_copy(r);
    cell = pct ? fmt::format("{:.0f}%", *pct) : "-";
    if (*r.median_us < 100) cell = fmt::format("{} {}", microseconds(*r.median_us), cell);
  }
  if (columns.size() < 2) return "";

  std::string table = fmt::format("{:27}", "% of copy");
  const auto width = [](const std::string& column) {
    return std::max<std::size_t>(12, column.size());
  };
  for (const std::string& column : columns) table += fmt::format(" {:>{}}", column, width(column));
  for (const auto& [lesson, row] : cells) {
    table += fmt::format("\n{:27}", lesson);
    for (const std::string& column : columns) {
      const auto cell = row.find(column);
      table += fmt::format(" {:>{}}", cell == row.end() ? "" : cell->second, width(column));
    }
  }
  return table + "\n";
}

void progress(std::string_view what) {
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K{} ...", what);
}

void end_progress() {
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
}

bool wants_colour(int file_descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(file_descriptor) != 0 && (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace rmsnorm
