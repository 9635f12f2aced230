#include "common/programs/report.hpp"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/contract/regime.hpp"

namespace rmsnorm {
namespace {

std::string verdict_text(const Result& result, bool colour) {
  static const std::map<Verdict, std::pair<const char*, fmt::terminal_color>> kShown = {
      {Verdict::pass, {"PASS", fmt::terminal_color::green}},
      {Verdict::fail, {"FAIL", fmt::terminal_color::red}},
      {Verdict::unsupported, {"UNSUPPORTED", fmt::terminal_color::yellow}}};
  const auto& [text, shade] = kShown.at(result.verdict);
  return colour ? fmt::format(fmt::fg(shade), "{}", text) : text;
}

/// Without a time: a lesson on the host is about its error.
std::string untimed_text(const Result& r) {
  if (r.device != "cpu" || !r.max_error || !r.error_bound) return "not timed";
  return fmt::format("not timed; error {:.1e}, bound {:.1e}", *r.max_error, *r.error_bound);
}

std::string time_columns(const Result& r) {
  if (!r.median_us) return fmt::format("{:44}", untimed_text(r));
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
  if (r.disturbed) line += fmt::format("  {}", in_words(*r.disturbed));
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

/// Behind what was disturbed, in the summary.
constexpr const char* kMark = "*";

/// The line of the summary that a result belongs to.
std::string line_name(const Result& r) {
  std::string name = r.implementation;
  if (name.find('_') == name.npos) name += " " + r.operation;  // not a lesson's slug
  return with_dtype(name, r.dtype);
}

std::string cell_of(const Result& r) {
  if (r.verdict == Verdict::unsupported) return "-";
  if (r.verdict == Verdict::fail) return "FAIL";
  if (!r.median_us) return "";
  const char* const mark = r.disturbed ? kMark : "";
  if (r.regime == kDecodeRegime) return microseconds(*r.median_us) + mark;
  const auto pct = percent_of_copy(r);
  return pct ? fmt::format("{:.0f}%{}", *pct, mark) : "";
}

/// The place of a name in a list, to which it is added if it is not there.
template <class Name>
std::size_t place_in(std::vector<Name>& names, const Name& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  names.push_back(name);
  return names.size() - 1;
}

}  // namespace

std::string summary(const std::vector<Result>& results) {
  // In the order of what was measured.
  std::vector<std::string> lines;
  std::vector<std::pair<std::string, std::string>> columns;  // regime, state of the cache
  std::map<std::pair<std::size_t, std::size_t>, std::string> cells;
  std::set<std::string> disturbed;
  for (const Result& r : results) {
    const bool is_listed = !is_sweep(r.regime) && r.regime != kCustomRegime;
    if (!is_listed || r.dtype == "fp16" || !r.cache) continue;
    const std::size_t line = place_in(lines, line_name(r));
    cells[{line, place_in(columns, {r.regime, cache_text(r)})}] = cell_of(r);
    if (r.disturbed) disturbed.insert(in_words(*r.disturbed));
  }
  if (columns.empty()) return "";

  std::string table = fmt::format("{:28}", "% of copy; decode: time");
  for (const auto& [regime, cache] : columns) table += fmt::format(" {:>8}", regime);
  table += fmt::format("\n{:28}", "");
  for (const auto& [regime, cache] : columns) table += fmt::format(" {:>8}", cache);
  for (std::size_t line = 0; line < lines.size(); ++line) {
    table += fmt::format("\n{:28}", lines[line]);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      table += fmt::format(" {:>8}", cells[{line, i}]);
    }
  }
  if (!disturbed.empty()) {
    table += fmt::format("\n{} the GPU was {}", kMark, fmt::join(disturbed, " or "));
  }
  return table + "\n";
}

std::vector<Result> without_variants(std::vector<Result> results) {
  std::erase_if(results, [](const Result& r) {
    return is_variant(r.implementation) && r.verdict != Verdict::fail;
  });
  return results;
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
