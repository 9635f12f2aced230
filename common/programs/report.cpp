#include "common/programs/report.hpp"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/contract/regime.hpp"

namespace rmsnorm {
namespace {

std::string verdict_text(const Result& result, bool colour) {
  std::string text = to_string(result.verdict);
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c;
  });
  if (!colour) return text;
  const auto shade = result.verdict == Verdict::pass   ? fmt::terminal_color::green
                     : result.verdict == Verdict::fail ? fmt::terminal_color::red
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
      "{:27} {:12} {:>7} x {:<6} {:5} {}  {}", r.implementation, with_dtype(r.regime, r.dtype),
      r.rows, r.hidden, cache_text(r), time_columns(r), verdict_text(r, colour));
  if (r.spread_pct.value_or(0) > kNoisyPct) line += "  noisy";
  if (!remark.empty()) line += fmt::format("  {}", remark);
  return line;
}

std::string skipped_line(std::string_view slug, std::string_view reason) {
  return fmt::format("{:27} cannot run: {}", slug, reason);
}

std::string implementation_list(const std::vector<Implementation>& implementations) {
  std::string list;
  for (const Implementation& i : implementations) {
    list += fmt::format("{:27} {:29} {}\n", i.slug, i.title, i.idea);
  }
  return list;
}

namespace {

/// A line and a column of the summary, in the order of what was measured.
std::string line_name(const Result& r) {
  std::string name = r.implementation;
  if (name.find('_') == name.npos) name += " " + r.operation;  // not a lesson's slug
  return with_dtype(name, r.dtype);
}

std::string column_name(const Result& r) {
  return fmt::format("{} {}", r.regime, cache_text(r));
}

std::string cell_of(const Result& r) {
  if (r.verdict == Verdict::unsupported) return "-";
  if (r.verdict == Verdict::fail) return "FAIL";
  if (!r.median_us) return "";
  if (r.regime == "decode") return microseconds(*r.median_us);
  const auto pct = percent_of_copy(r);
  return pct ? fmt::format("{:.0f}%", *pct) : "";
}

void add_new(std::vector<std::string>& to, const std::string& name) {
  if (std::find(to.begin(), to.end(), name) == to.end()) to.push_back(name);
}

}  // namespace

std::string summary(const std::vector<Result>& results) {
  std::vector<std::string> lines;
  std::vector<std::string> columns;
  std::map<std::pair<std::string, std::string>, std::string> cells;
  for (const Result& r : results) {
    const bool is_listed = r.regime.rfind("sweep", 0) != 0 && r.regime != kCustomRegime;
    if (!is_listed || r.dtype == "fp16" || !r.cache) continue;
    add_new(lines, line_name(r));
    add_new(columns, column_name(r));
    cells[{line_name(r), column_name(r)}] = cell_of(r);
  }
  if (columns.empty()) return "";

  std::string table = fmt::format("{:28}", "% of copy; decode: time");
  std::string states(28, ' ');
  for (const std::string& column : columns) {
    const std::size_t space = column.find(' ');
    table += fmt::format(" {:>8}", column.substr(0, space));
    states += fmt::format(" {:>8}", column.substr(space + 1));
  }
  table += "\n" + states + "\n";
  for (const std::string& line : lines) {
    table += fmt::format("{:28}", line);
    for (const std::string& column : columns) table += fmt::format(" {:>8}", cells[{line, column}]);
    table += "\n";
  }
  return table;
}

std::string tally(const std::vector<Result>& results) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(
        results.begin(), results.end(), [&](const Result& r) { return r.verdict == verdict; });
  };
  return fmt::format(
      "{} results: {} pass, {} fail, {} unsupported", results.size(), count(Verdict::pass),
      count(Verdict::fail), count(Verdict::unsupported));
}

}  // namespace rmsnorm
