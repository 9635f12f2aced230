#include "plots/select.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <tuple>

#include "common/records/csv.hpp"

namespace rmsnorm::plots {
namespace {

void require_unique(const std::filesystem::path& file, const std::vector<Result>& results) {
  // In a sweep the shape tells results apart; elsewhere a condition stands for one shape. What was
  // not timed may repeat: a lesson on the CPU gets the same few rows at many points of a sweep.
  using Key =
      std::tuple<std::string, std::string, std::string, std::string, std::int64_t, std::int64_t>;
  std::set<Key> seen;
  for (const Result& r : results) {
    if (r.cache.empty()) continue;
    const bool sweep = is_sweep(r.regime);
    const Key key(r.lesson, r.regime, r.dtype, r.cache, sweep ? r.rows : 0, sweep ? r.hidden : 0);
    if (!seen.insert(key).second) {
      throw std::runtime_error(fmt::format(
          "{}: there are two results of {} in {}, {}", file.string(), r.lesson, r.regime, r.cache));
    }
  }
}

}  // namespace

std::vector<Result> load_results(const std::filesystem::path& file) {
  std::vector<Result> results = read_csv(file);
  if (results.empty()) throw std::runtime_error(fmt::format("{}: no results", file.string()));
  for (const Result& r : results) {
    if (r.rows >= 1 && r.hidden >= 1) continue;
    throw std::runtime_error(fmt::format(
        "{}: a result of {} has {} rows of {} columns", file.string(), r.lesson, r.rows, r.hidden));
  }
  require_unique(file, results);
  return results;
}

bool is_sweep(std::string_view regime) {
  return regime.starts_with("sweep_");
}

bool is_foil(std::string_view slug) {
  return slug.find('/') != std::string_view::npos;
}

std::string short_name(const std::string& slug) {
  const std::size_t slash = std::min(slug.find('/'), slug.size());
  const std::size_t number = std::min(slug.find('_'), slash);
  return slug.substr(0, number) + slug.substr(slash);
}

std::vector<std::string> slugs_of(const std::vector<Result>& results) {
  std::set<std::string> slugs;
  for (const Result& result : results) slugs.insert(result.lesson);
  return {slugs.begin(), slugs.end()};
}

std::vector<Result> of_fp32(std::vector<Result> results) {
  std::erase_if(results, [](const Result& result) { return result.dtype != "fp32"; });
  return results;
}

std::vector<Result> comparable(std::vector<Result> results) {
  std::set<std::string> others;
  for (const Result& result : results) {
    if (moves_more_than_copy(result)) others.insert(result.lesson);
  }
  std::erase_if(results, [&](const Result& result) {
    return is_foil(result.lesson) || others.contains(result.lesson);
  });
  return results;
}

Condition condition_of(const Result& result) {
  return {result.regime, result.cache, result.dtype};
}

std::vector<Condition> timed_conditions(const std::vector<Result>& results) {
  std::vector<Condition> conditions;
  for (const Result& result : results) {
    const Condition condition = condition_of(result);
    if (is_sweep(result.regime) || result.cache.empty()) continue;
    if (std::find(conditions.begin(), conditions.end(), condition) == conditions.end()) {
      conditions.push_back(condition);
    }
  }
  return conditions;
}

const Result* find_result(
    const std::vector<Result>& results, const std::string& slug, const Condition& condition) {
  for (const Result& result : results) {
    if (result.lesson == slug && condition_of(result) == condition) return &result;
  }
  return nullptr;
}

std::vector<Result> results_of_regime(
    const std::vector<Result>& results, const std::string& regime) {
  std::vector<Result> found;
  for (const Result& result : results) {
    if (result.regime == regime) found.push_back(result);
  }
  return found;
}

}  // namespace rmsnorm::plots
