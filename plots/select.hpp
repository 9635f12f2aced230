#pragma once
/// \file
/// Questions that tables and charts ask of the results.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/regime.hpp"
#include "common/records/result.hpp"

namespace rmsnorm::plots {

/// Reads a results file for a table or a chart.
/// \throws std::runtime_error as read_csv does; also if there is no result, or two results of one
/// implementation where a table or a chart has room for one.
std::vector<Result> load_results(const std::filesystem::path& file);

/// The slug's number, "04" of "04_warp_reduce", with the rest of a variant: "02/thread_per_row".
std::string short_name(const std::string& slug);

/// Adds what is not there yet.
template <class T>
void add_if_new(std::vector<T>& all, const T& one) {
  if (std::ranges::find(all, one) == all.end()) all.push_back(one);
}

/// The implementations, each once, in the order of the file.
std::vector<std::string> implementations_of(const std::vector<Result>& results);

/// The rows of results or counts that `is_wanted`.
template <class Row, class Wanted>
std::vector<Row> only(std::vector<Row> rows, Wanted is_wanted) {
  std::erase_if(rows, [&](const Row& row) { return !is_wanted(row); });
  return rows;
}

/// The rows of an operation.
template <class Row>
std::vector<Row> of_operation(const std::vector<Row>& rows, std::string_view operation) {
  return only(rows, [&](const Row& row) { return row.operation == operation; });
}

/// The rows of a regime.
template <class Row>
std::vector<Row> of_regime(const std::vector<Row>& rows, std::string_view regime) {
  return only(rows, [&](const Row& row) { return row.regime == regime; });
}

/// The rows with fp32 tensors: charts compare nothing else.
template <class Row>
std::vector<Row> of_fp32(const std::vector<Row>& rows) {
  return only(rows, [](const Row& row) { return row.dtype == "fp32"; });
}

/// The rows without those of variants.
template <class Row>
std::vector<Row> without_variants(const std::vector<Row>& rows) {
  return only(rows, [](const Row& row) { return !is_variant(row.implementation); });
}

/// A regime, a state of the cache (none where nothing is timed), and types.
struct Condition {
  std::string regime;
  std::optional<Cache> cache;
  std::string dtype = "fp32";
  bool operator==(const Condition&) const = default;
};

/// The one in which a result was measured.
Condition condition_of(const Result& result);

/// The conditions in which something was to be timed, in the order of the file, without sweeps.
std::vector<Condition> timed_conditions(const std::vector<Result>& results);

/// The implementation's result in a condition, or null.
const Result* find_result(
    const std::vector<Result>& results, const std::string& implementation,
    const Condition& condition);

/// The result, the profile or the loads of an implementation in a regime, with tensors of a type,
/// or null.
template <class Row>
const Row* find_row(
    const std::vector<Row>& rows, std::string_view implementation, std::string_view regime,
    std::string_view dtype) {
  const auto found = std::ranges::find_if(rows, [&](const Row& row) {
    return row.implementation == implementation && row.regime == regime && row.dtype == dtype;
  });
  return found == rows.end() ? nullptr : &*found;
}

/// What the words behind "results:begin" ask for, "KIND REGIME [DTYPE] SLUG...": fp32 if no type is
/// named.
struct Wanted {
  std::string regime;
  bool has_dtype;
  std::string dtype;
  std::vector<std::string> slugs;
};

/// \throws std::runtime_error if a regime or a slug is missing
Wanted wanted_by(const std::vector<std::string>& words);

/// Whether a word is a type: "fp32", "bf16/none".
bool is_dtype(std::string_view word);

/// The time of the roof, as many bytes that are moved, in microseconds, if it was measured.
std::optional<double> roof_us(const Result& result);

/// Whether it was one of as many bytes read as written.
bool is_copy(const Result& result);

/// Results as pointers to them, which are never null.
struct ResultPointers : std::vector<const Result*> {
  ResultPointers(const std::vector<const Result*>& all) : vector(all) {}
  ResultPointers(const std::vector<Result>& all) {
    for (const Result& result : all) push_back(&result);
  }
};

/// "copy", if that is the roof of all, else "roof".
std::string word_for_roof(const ResultPointers& results);

/// Stands behind the numbers of a result that was disturbed.
inline constexpr const char* kMark = " †";

/// That mark, or "" if the result was not.
std::string mark_of(const Result& result);

/// What the mark says, "†: the GPU was at the power cap", between `before` and
/// `after`; "" if none of the results has one.
std::string words_for_mark(
    const ResultPointers& results, std::string_view before, std::string_view after);

/// Where results were measured, without what is different for each implementation: "NVIDIA H200,
/// driver 580, CUDA 13.0, 2026-11-21". Each source once, `between` them.
std::string sources_of(const std::vector<Result>& results, std::string_view between);

}  // namespace rmsnorm::plots
