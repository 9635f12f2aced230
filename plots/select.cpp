#include "plots/select.hpp"

#include <fmt/format.h>

#include <set>
#include <stdexcept>
#include <tuple>

#include "common/records/csv.hpp"

namespace rmsnorm::plots {
namespace {

/// What was not timed may repeat: a lesson on the CPU gets the same few rows at many points of a
/// sweep.
void require_unique(const std::filesystem::path& file, const std::vector<Result>& results) {
  std::set<std::tuple<
      std::string, std::string, std::string, std::string, Cache, std::int64_t, std::int64_t>>
      seen;
  for (const Result& r : results) {
    if (!r.cache ||
        seen.emplace(r.operation, r.implementation, r.regime, r.dtype, *r.cache, r.rows, r.hidden)
            .second) {
      continue;
    }
    throw std::runtime_error(fmt::format(
        "{}: there are two results of {} in {}, {} x {} {}, {}", file.string(), r.implementation,
        r.regime, r.rows, r.hidden, r.dtype, cache_text(r)));
  }
}

}  // namespace

std::vector<Result> load_results(const std::filesystem::path& file) {
  std::vector<Result> results = read_csv(file);
  if (results.empty()) throw std::runtime_error(fmt::format("{}: no results", file.string()));
  for (const Result& r : results) {
    if (r.rows >= 1 && r.hidden >= 1) continue;
    throw std::runtime_error(fmt::format(
        "{}: a result of {} has {} rows of {} columns", file.string(), r.implementation, r.rows,
        r.hidden));
  }
  require_unique(file, results);
  return results;
}

std::string short_name(const std::string& slug) {
  const std::size_t slash = std::min(slug.find('/'), slug.size());
  const std::size_t number = std::min(slug.find('_'), slash);
  return slug.substr(0, number) + slug.substr(slash);
}

std::vector<std::string> implementations_of(const std::vector<Result>& results) {
  std::vector<std::string> names;
  for (const Result& result : results) add_if_new(names, result.implementation);
  return names;
}

Condition condition_of(const Result& result) {
  return {result.regime, result.cache, result.dtype};
}

std::vector<Condition> timed_conditions(const std::vector<Result>& results) {
  std::vector<Condition> conditions;
  for (const Result& r : results) {
    if (!is_sweep(r.regime) && r.cache) add_if_new(conditions, condition_of(r));
  }
  return conditions;
}

const Result* find_result(
    const std::vector<Result>& results, const std::string& implementation,
    const Condition& condition) {
  for (const Result& r : results) {
    if (r.implementation == implementation && condition_of(r) == condition) return &r;
  }
  return nullptr;
}

bool is_dtype(std::string_view word) {
  return word.starts_with("fp") || word.starts_with("bf");
}

Wanted wanted_by(const std::vector<std::string>& words) {
  const bool has_dtype = words.size() > 2 && is_dtype(words[2]);
  const std::size_t first = has_dtype ? 3 : 2;
  if (words.size() <= first)
    throw std::runtime_error(fmt::format("'{}' needs a regime and a slug", words.at(0)));
  return {words[1], has_dtype, has_dtype ? words[2] : "fp32", {words.begin() + first, words.end()}};
}

std::optional<double> roof_us(const Result& result) {
  if (result.roof_gbps.value_or(0) <= 0) return {};
  return static_cast<double>(result.bytes) / *result.roof_gbps / 1e3;
}

bool is_copy(const Result& result) {
  return result.roof.empty() || result.roof == "copy" || result.roof == "1:1";
}

std::string word_for_roof(const ResultPointers& results) {
  return std::ranges::all_of(results, [](const Result* r) { return is_copy(*r); }) ? "copy"
                                                                                   : "roof";
}

std::string mark_of(const Result& result) {
  return result.disturbed ? kMark : "";
}

std::string words_for_mark(
    const ResultPointers& results, std::string_view before, std::string_view after) {
  std::set<std::string> disturbed;
  for (const Result* r : results) {
    if (r->disturbed) disturbed.insert(in_words(*r->disturbed));
  }
  if (disturbed.empty()) return "";
  return fmt::format("{}†: the GPU was {}{}", before, fmt::join(disturbed, " or "), after);
}

std::string sources_of(const std::vector<Result>& results, std::string_view between) {
  std::vector<std::string> sources;
  for (const Result& r : results) {
    add_if_new(
        sources, fmt::format("{}, driver {}, CUDA {}, {}", r.device, r.driver, r.cuda, r.date));
  }
  return fmt::format("{}", fmt::join(sources, between));
}

}  // namespace rmsnorm::plots
