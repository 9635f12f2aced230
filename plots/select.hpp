#pragma once
/// \file
/// Questions that tables and charts ask of the results.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/records/result.hpp"

namespace rmsnorm::plots {

/// Reads a results file for a table or a chart.
/// \throws std::runtime_error as read_csv does; also if there is no result, or two results of one
/// lesson where a table or a chart has room for one.
std::vector<Result> load_results(const std::filesystem::path& file);

/// Whether the regime is a sweep: many shapes under one name.
bool is_sweep(std::string_view regime);

/// Whether the slug names a second kernel of a lesson, as in "02_naive/thread_per_row".
bool is_foil(std::string_view slug);

/// The slug's number, "04" of "04_warp_reduce", with the rest of a foil: "02/thread_per_row".
std::string short_name(const std::string& slug);

/// All slugs, sorted, each once.
std::vector<std::string> slugs_of(const std::vector<Result>& results);

/// The results with fp32 tensors: charts compare nothing else.
std::vector<Result> of_fp32(std::vector<Result> results);

/// The results of lessons that move no more bytes than the copy, without those of foils.
std::vector<Result> comparable(std::vector<Result> results);

/// A regime, a state of the cache, and types.
struct Condition {
  std::string regime;
  std::string cache;
  std::string dtype = "fp32";
  bool operator==(const Condition&) const = default;
};

/// The one in which a result was measured.
Condition condition_of(const Result& result);

/// The conditions in which something was to be timed, in the order of the file, without sweeps.
std::vector<Condition> timed_conditions(const std::vector<Result>& results);

/// The lesson's result in a condition, or null.
const Result* find_result(
    const std::vector<Result>& results, const std::string& slug, const Condition& condition);

/// The results of one regime.
std::vector<Result> results_of_regime(
    const std::vector<Result>& results, const std::string& regime);

}  // namespace rmsnorm::plots
