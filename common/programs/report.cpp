#include "common/programs/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/programs/table.hpp"

namespace rmsnorm {
namespace {

bool has_no_clock(const Result& r) {
  return r.device == "cpu" || r.device == "CPU device";
}

std::string time_columns(const Result& r) {
  if (has_no_clock(r)) return "";
  if (!r.median_us) return fmt::format("{:4} {:33} ", cache_text(r), "not timed");
  const auto pct = percent_of_roof(r);
  return fmt::format(
      "{:4} {:>9} +-{:4.1f}% {:>5.0f} GB/s {:>4} ", cache_text(r), microseconds(*r.median_us),
      r.spread_pct.value_or(0), r.gbps.value_or(0), pct ? fmt::format("{:.0f}%", *pct) : "-");
}

}  // namespace

std::string microseconds(double us) {
  return fmt::format("{:.{}f} us", us, us < 10 ? 2 : us < 100 ? 1 : 0);
}

std::string result_line(const Result& r, std::string_view remark, bool colour) {
  std::string line = fmt::format(
      "{:27} {:12} {:>7} x {:<5} {}{}", r.implementation, with_dtype(r.regime, r.dtype), r.rows,
      r.hidden, time_columns(r), verdict_text(r.verdict, colour));
  if (r.device == "cpu" && r.verdict == Verdict::pass && r.max_error && r.error_bound) {
    line += fmt::format("  error {:.1e}, bound {:.1e}", *r.max_error, *r.error_bound);
  }
  if (r.spread_pct.value_or(0) > kNoisyPct) line += "  noisy";
  if (r.disturbed) line += fmt::format("  {}", in_words(*r.disturbed));
  if (!r.sizes.empty()) line += fmt::format("  {}", r.sizes);
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

std::string tally(const std::vector<Result>& results) {
  const auto count = [&](Verdict v) { return std::ranges::count(results, v, &Result::verdict); };
  return fmt::format(
      "{} results: {} pass, {} fail, {} unsupported", results.size(), count(Verdict::pass),
      count(Verdict::fail), count(Verdict::unsupported));
}

}  // namespace rmsnorm
