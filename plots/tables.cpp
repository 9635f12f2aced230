#include "plots/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "plots/format.hpp"
#include "plots/markdown_table.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

using Slugs = std::vector<std::string>;
using Row = TableRow;

/// One line on where the results come from. Lessons that run on the CPU have no say in it if there
/// are results of a GPU.
std::string provenance(const std::vector<const Result*>& results) {
  const auto on_gpu = [](const Result* result) { return result->device != "cpu"; };
  const bool any_on_gpu = std::any_of(results.begin(), results.end(), on_gpu);
  std::vector<std::string> sources;
  for (const Result* r : results) {
    if (any_on_gpu && !on_gpu(r)) continue;
    std::string source = "Verified on the CPU";
    if (any_on_gpu) source = fmt::format("Measured on {}, driver {}", r->device, r->driver);
    source += fmt::format(", CUDA {}, commit {}, {}", r->cuda, code(r->commit), r->date);
    if (std::find(sources.begin(), sources.end(), source) == sources.end())
      sources.push_back(source);
  }
  return fmt::format("{}.\n", fmt::join(sources, ". "));
}

std::string with_provenance(const std::vector<Row>& rows, const std::vector<const Result*>& used) {
  return markdown_table(rows) + "\n" + provenance(used);
}

/// The word for a result without a time.
std::string word_for(const Result& result) {
  return result.verdict == "pass" ? "not timed" : result.verdict;
}

void require_no_slugs(const std::string& kind, const Slugs& slugs) {
  if (!slugs.empty())
    throw std::runtime_error(
        fmt::format("'{}' takes no slug, but there is '{}'", kind, slugs.front()));
}

void require_slugs(
    const std::string& kind, const Slugs& slugs, const std::vector<Result>& results) {
  if (slugs.empty()) throw std::runtime_error(fmt::format("'{}' needs a slug", kind));
  const Slugs known = slugs_of(results);
  for (const std::string& slug : slugs) {
    if (!std::binary_search(known.begin(), known.end(), slug)) {
      throw std::runtime_error(fmt::format("there is no result of '{}'", slug));
    }
  }
}

// --- ladder

/// A column of the ladder: the condition in which it shows something, and what it shows.
struct LadderColumn {
  const char* heading;
  Condition condition;
  bool shows_time;
};

const std::vector<LadderColumn>& ladder_columns() {
  static const std::vector<LadderColumn> columns = {
      {"prefill", {"prefill", "cold"}, false},    {"batch, warm", {"batch", "warm"}, false},
      {"heads", {"heads", "cold"}, false},        {"wide", {"wide", "cold"}, false},
      {"decode, warm", {"decode", "warm"}, true},
  };
  return columns;
}

std::string ladder_cell(const Result* result, bool shows_time) {
  if (result == nullptr) return kNothing;
  if (!result->median_us) return result->verdict == "pass" ? kNothing : result->verdict;
  if (shows_time) return microseconds(*result->median_us);
  const auto pct = percent_of_copy(*result);
  return pct ? percent(*pct) : kNothing;
}

std::string ladder(const std::vector<Result>& results) {
  Row header = {"lesson"};
  for (const LadderColumn& column : ladder_columns()) header.push_back(column.heading);
  std::vector<Row> rows = {header};
  std::vector<const Result*> used;
  const std::vector<Result> lessons = comparable(results);
  for (const std::string& slug : slugs_of(lessons)) {
    Row row = {fmt::format("[{}](lessons/{}/)", code(slug), slug)};
    const std::size_t used_before = used.size();
    for (const LadderColumn& column : ladder_columns()) {
      const Result* result = find_result(lessons, slug, column.condition);
      if (result != nullptr) used.push_back(result);
      row.push_back(ladder_cell(result, column.shows_time));
    }
    if (used.size() > used_before) rows.push_back(row);
  }
  if (used.empty()) throw std::runtime_error("there are no results in the ladder's regimes");
  return fmt::format(
      "Share of the measured copy's bandwidth; in decode, the time of one launch.\n\n{}",
      with_provenance(rows, used));
}

// --- lesson

std::string time_cell(const Result& result) {
  if (!result.median_us) return word_for(result);
  std::string text = microseconds(*result.median_us);
  if (result.spread_pct.value_or(0) > kNoisyPct)
    text += fmt::format(" ± {}", percent(*result.spread_pct));
  if (const auto pct = percent_of_copy(result)) {
    text += ", " + percent(*pct);
  } else if (result.gbps) {
    text += ", " + gigabytes_per_second(*result.gbps);
  }
  return text;
}

std::string copy_cell(const Result& result) {
  if (!result.copy_gbps || !(*result.copy_gbps > 0)) return kNothing;
  const double us = bytes_of_tensors(result) / *result.copy_gbps / 1e3;
  return fmt::format("{}, {}", microseconds(us), gigabytes_per_second(*result.copy_gbps));
}

/// The conditions in which any of the lessons has a result, in the order of the file. A lesson that
/// is not timed has none of its own: it gets a row only where no other lesson makes one.
std::vector<Condition> conditions_of(const std::vector<Result>& results, const Slugs& slugs) {
  std::vector<Result> of_slugs;
  for (const Result& result : results) {
    const bool wanted = std::find(slugs.begin(), slugs.end(), result.lesson) != slugs.end();
    if (wanted && !is_sweep(result.regime)) of_slugs.push_back(result);
  }
  std::vector<Condition> conditions = timed_conditions(of_slugs);
  for (const Result& result : of_slugs) {
    const auto same_problem = [&](const Condition& condition) {
      return condition.regime == result.regime && condition.dtype == result.dtype;
    };
    if (std::none_of(conditions.begin(), conditions.end(), same_problem))
      conditions.push_back({result.regime, "", result.dtype});
  }
  return conditions;
}

/// "decode, cold"; "decode, cold, bf16" in a table of several types.
std::string name_of(const Condition& condition, bool has_types) {
  std::string name = condition.regime;
  if (!condition.cache.empty()) name += ", " + condition.cache;
  return has_types ? name + ", " + condition.dtype : name;
}

std::string lesson_table(const std::vector<Result>& results, const Slugs& slugs) {
  Row header = {"regime", "copy"};
  std::set<std::string> found;
  for (const std::string& slug : slugs) header.push_back(code(slug));
  std::vector<Row> rows = {header};
  std::vector<const Result*> used;
  const std::vector<Condition> conditions = conditions_of(results, slugs);
  const bool has_types = std::any_of(
      conditions.begin(), conditions.end(),
      [](const Condition& condition) { return condition.dtype != "fp32"; });
  for (const Condition& condition : conditions) {
    Row row = {name_of(condition, has_types), kNothing};
    for (const std::string& slug : slugs) {
      const Result* result = find_result(results, slug, condition);
      if (result == nullptr)
        result = find_result(results, slug, {condition.regime, "", condition.dtype});
      row.push_back(result == nullptr ? kNothing : time_cell(*result));
      if (result == nullptr) continue;
      found.insert(slug);
      used.push_back(result);
      if (result->copy_gbps) row[1] = copy_cell(*result);
    }
    rows.push_back(row);
  }
  for (const std::string& slug : slugs) {
    if (!found.contains(slug))
      throw std::runtime_error(fmt::format("'{}' has no result outside the sweeps", slug));
  }
  return with_provenance(rows, used);
}

// --- errors

std::string error_cell(const std::optional<double>& error, const Result& result) {
  if (error) return fmt::format("{:.1e}", *error);
  return result.verdict == "pass" ? kNothing : result.verdict;
}

std::string errors_table(const std::vector<Result>& results, const Slugs& slugs) {
  const std::vector<Result> of_sweep = results_of_regime(of_fp32(results), "sweep_hidden");
  const auto find = [&](const std::string& slug, std::int64_t hidden) -> const Result* {
    for (const Result& result : of_sweep) {
      if (result.lesson == slug && result.hidden == hidden) return &result;
    }
    return nullptr;
  };

  Row header = {"hidden"};
  std::set<std::int64_t> lengths;
  for (const std::string& slug : slugs) {
    header.push_back(code(slug));
    header.push_back("bound");
    bool any = false;
    for (const Result& result : of_sweep) {
      if (result.lesson != slug) continue;
      any = true;
      lengths.insert(result.hidden);
    }
    if (!any) throw std::runtime_error(fmt::format("'{}' has no result in sweep_hidden", slug));
  }

  std::vector<Row> rows = {header};
  std::vector<const Result*> used;
  for (const std::int64_t hidden : lengths) {
    Row row = {fmt::format("{}", hidden)};
    for (const std::string& slug : slugs) {
      const Result* result = find(slug, hidden);
      if (result == nullptr) {
        row.insert(row.end(), {kNothing, kNothing});
        continue;
      }
      used.push_back(result);
      row.push_back(error_cell(result->max_error, *result));
      row.push_back(result->error_bound ? fmt::format("{:.1e}", *result->error_bound) : kNothing);
    }
    rows.push_back(row);
  }
  return with_provenance(rows, used);
}

}  // namespace

std::string make_table(const std::vector<Result>& results, const std::vector<std::string>& words) {
  if (words.empty()) throw std::runtime_error("the kind of table is missing");
  const std::string& kind = words.front();
  const Slugs slugs(words.begin() + 1, words.end());
  if (kind == "ladder") {
    require_no_slugs(kind, slugs);
    return ladder(results);
  }
  if (kind != "lesson" && kind != "errors") {
    throw std::runtime_error(
        fmt::format("there is no table '{}'; there are ladder, lesson, errors and profile", kind));
  }
  require_slugs(kind, slugs, results);
  return kind == "lesson" ? lesson_table(results, slugs) : errors_table(results, slugs);
}

}  // namespace rmsnorm::plots
