#include "plots/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "plots/format.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

constexpr const char* kLibrary = "librmsnorm";

using Slugs = std::vector<std::string>;
using Row = TableRow;

/// One line on where the results come from: each GPU once, with all revisions. Lessons that run on
/// the CPU have no say in it.
std::string provenance(const std::vector<const Result*>& results) {
  std::vector<std::string> machines;
  std::map<std::string, std::vector<std::string>> revisions;
  for (const Result* r : results) {
    if (r->device == "cpu") continue;
    const std::string machine =
        fmt::format("Measured on {}, driver {}, CUDA {}", r->device, r->driver, r->cuda);
    add_if_new(machines, machine);
    add_if_new(revisions[machine], fmt::format("commit {}, {}", code(r->version), r->date));
  }
  for (std::string& machine : machines)
    machine += fmt::format(", {}", fmt::join(revisions[machine], ", and "));
  return fmt::format("{}.\n", fmt::join(machines, ". "));
}

std::string with_provenance(const std::vector<Row>& rows, const std::vector<const Result*>& used) {
  const std::string table = markdown_table(rows);
  const bool has_mark = table.find(kMark) != std::string::npos;  // not where there are no times
  return table + "\n" + (has_mark ? words_for_mark(used, "", ".\n\n") : "") + provenance(used);
}

/// The word for a result without a time.
std::string word_for(const Result& result, const char* if_right) {
  return result.verdict == Verdict::pass ? if_right : to_string(result.verdict);
}

// --- ladder

/// A column of the ladder: the condition in which it shows something, and what it shows.
struct LadderColumn {
  const char* heading;
  Condition condition;
  bool shows_time;
};

const LadderColumn kLadderColumns[] = {
    {"prefill", {kPrefillRegime, Cache::cold}, false},
    {"batch, warm", {"batch", Cache::warm}, false},
    {"heads", {"heads", Cache::cold}, false},
    {"wide", {"wide", Cache::cold}, false},
    {"decode, warm", {kDecodeRegime, Cache::warm}, true},
};

std::string ladder_cell(const Result* result, bool shows_time) {
  if (result == nullptr) return kNothing;
  if (!result->median_us) return word_for(*result, kNothing);
  if (shows_time) return microseconds(*result->median_us) + mark_of(*result);
  const auto pct = percent_of_roof(*result);
  return pct ? percent(*pct) + mark_of(*result) : kNothing;
}

/// A lesson's slug with a link to its folder; others have none.
std::string linked(const std::string& slug) {
  return is_lesson(slug) ? fmt::format("[{}](lessons/{}/)", code(slug), slug) : code(slug);
}

std::string ladder(const std::vector<Result>& results) {
  std::vector<Row> rows = {{"implementation"}};
  for (const LadderColumn& column : kLadderColumns) rows[0].push_back(column.heading);
  std::vector<const Result*> used;
  for (const std::string& slug : implementations_of(results)) {
    Row row = {linked(slug)};
    const std::size_t used_before = used.size();
    for (const LadderColumn& column : kLadderColumns) {
      const Result* result = find_result(results, slug, column.condition);
      if (result != nullptr) used.push_back(result);
      row.push_back(ladder_cell(result, column.shows_time));
    }
    if (used.size() > used_before) rows.push_back(row);
  }
  if (used.empty()) throw std::runtime_error("there are no results in the ladder's regimes");
  return fmt::format(
      "Share of the measured {}'s bandwidth; in decode, the time of one launch.\n\n{}",
      word_for_roof(used), with_provenance(rows, used));
}

// --- lesson

/// A time and its share of the roof; between them the spread, if it is large or wanted of all.
std::string time_cell(const Result& result, bool has_spread = false) {
  if (!result.median_us) return word_for(result, "not timed");
  std::string text = microseconds(*result.median_us);
  if (result.spread_pct && (has_spread || *result.spread_pct > kNoisyPct))
    text += fmt::format(" ± {}", percent(*result.spread_pct));
  if (const auto pct = percent_of_roof(result)) {
    text += ", " + percent(*pct);
  } else if (result.gbps) {
    text += ", " + gigabytes_per_second(*result.gbps);
  }
  return text + mark_of(result);
}

/// "26.1 µs, 3423 GB/s", and the ratio where it is not a copy's: "(2:1)".
std::string roof_cell(const Result& result) {
  const auto us = roof_us(result);
  if (!us) return kNothing;
  return fmt::format(
      "{}, {}{}", microseconds(*us), gigabytes_per_second(*result.roof_gbps),
      is_copy(result) ? "" : fmt::format(" ({})", result.roof));
}

/// The conditions in which there is any result, in the order of the file. What has no time
/// has none of its own: it gets a row only where nothing else makes one.
std::vector<Condition> conditions_of(const std::vector<Result>& results) {
  std::vector<Condition> conditions = timed_conditions(results);
  for (const Result& result : results) {
    const auto same_problem = [&](const Condition& condition) {
      return condition.regime == result.regime && condition.dtype == result.dtype;
    };
    if (std::ranges::none_of(conditions, same_problem))
      conditions.push_back({result.regime, {}, result.dtype});
  }
  return conditions;
}

/// "decode, cold"; "decode, cold, bf16" in a table of several types.
std::string name_of(const Condition& condition, bool has_types) {
  std::string name = condition.regime;
  if (condition.cache) name += fmt::format(", {}", to_string(*condition.cache));
  return has_types ? name + ", " + condition.dtype : name;
}

/// A column of a lesson's table: "10_half_precision", or with its operation behind ":" where that
/// is not the one of the first column.
struct Column {
  std::string slug;
  std::string operation;  ///< "" if it is that
};

Column column_of(const std::string& word) {
  const std::size_t colon = std::min(word.find(':'), word.size());
  return {word.substr(0, colon), word.substr(std::min(colon + 1, word.size()))};
}

std::string lesson_table(const std::vector<Result>& results, const Slugs& words, bool has_spreads) {
  Slugs slugs, others;
  for (const std::string& word : words) {
    const Column column = column_of(word);
    slugs.push_back(column.slug);
    if (!column.operation.empty()) others.push_back(column.slug);
  }
  Row header = {"regime", ""};
  for (const std::string& slug : slugs) header.push_back(code(slug));
  std::vector<Row> rows = {header};
  std::vector<const Result*> used;
  const std::vector<Condition> conditions = conditions_of(results);
  const auto is_other = [](const std::string& dtype) { return dtype != "fp32"; };
  const bool has_types = std::ranges::any_of(conditions, is_other, &Condition::dtype);
  for (const Condition& condition : conditions) {
    Row row = {name_of(condition, has_types), kNothing};
    for (const std::string& slug : slugs) {
      const Result* result = find_result(results, slug, condition);
      if (result == nullptr)
        result = find_result(results, slug, {condition.regime, {}, condition.dtype});
      row.push_back(result == nullptr ? kNothing : time_cell(*result, has_spreads));
      if (result == nullptr) continue;
      used.push_back(result);
      // The library's is of another run, and another operation's of other bytes.
      const bool is_other = std::ranges::find(others, slug) != others.end();
      const bool is_wanted = !is_other && (slug != kLibrary || row[1] == kNothing);
      if (result->roof_gbps && is_wanted) row[1] = roof_cell(*result);
    }
    rows.push_back(row);
  }
  rows[0][1] = word_for_roof(used);
  return with_provenance(rows, used);
}

// --- sweeps

/// A row for each length of a row in a sweep or, `by_rows`, for each shape. It begins with
/// begin(results in it), and then has cells(result) for each slug; there may be no result.
template <class Begin, class Cells>
std::string sweep_table(
    const std::vector<Result>& of_sweep, const Slugs& slugs, const Row& header, bool by_rows,
    Begin begin, Cells cells) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::map<std::string, const Result*>> by_shape;
  for (const Result& result : of_sweep)
    by_shape[{result.hidden, by_rows ? result.rows : 0}][result.implementation] = &result;
  std::vector<Row> rows = {header};
  std::vector<const Result*> used;
  for (auto& [shape, result_of] : by_shape) {
    Row row;
    std::vector<const Result*> of_row;
    for (const std::string& slug : slugs) {
      const Result* result = result_of[slug];
      for (const std::string& cell : cells(result)) row.push_back(cell);
      if (result != nullptr) of_row.push_back(result);
    }
    const Row first = begin(of_row);
    row.insert(row.begin(), first.begin(), first.end());
    used.insert(used.end(), of_row.begin(), of_row.end());
    rows.push_back(row);
  }
  return with_provenance(rows, used);
}

std::string errors_table(const std::vector<Result>& of_sweep, const Slugs& slugs) {
  Row header = {"hidden"};
  for (const std::string& slug : slugs) header.insert(header.end(), {code(slug), "bound"});
  const auto begin = [](const std::vector<const Result*>& of_row) -> Row {
    return {fmt::format("{}", of_row.front()->hidden)};
  };
  const auto cells = [](const Result* result) -> Row {
    if (result == nullptr) return {kNothing, kNothing};
    const auto text = [](double error) { return fmt::format("{:.1e}", error); };
    return {
        result->max_error ? text(*result->max_error) : word_for(*result, kNothing),
        result->error_bound ? text(*result->error_bound) : kNothing};
  };
  return sweep_table(of_sweep, slugs, header, false, begin, cells);
}

constexpr int kLongRow = 32768;  // columns from which on the table of long rows has one

std::string shapes_table(const std::vector<Result>& of_sweep, const Slugs& slugs) {
  Row header = {"rows × hidden, " + of_sweep.front().dtype, word_for_roof(of_sweep)};
  for (const std::string& slug : slugs) header.push_back(code(slug));
  const auto begin = [](const std::vector<const Result*>& of_row) -> Row {
    const Result& first = *of_row.front();
    return {fmt::format("{} × {}", first.rows, first.hidden), roof_cell(first)};
  };
  const auto cells = [](const Result* result) -> Row {
    return {result == nullptr ? kNothing : time_cell(*result)};
  };
  return sweep_table(of_sweep, slugs, header, true, begin, cells);
}

// --- all

/// The columns' results that are wanted: in their operation, or else in the first one's, and those
/// of variants, which may do another of as many bytes.
/// \throws std::runtime_error if there are no slugs, or if one has no such result
template <class Wanted>
std::vector<Result> results_of(
    const std::vector<Result>& results, const Slugs& slugs, const std::string& where,
    Wanted is_wanted) {
  if (slugs.empty()) throw std::runtime_error("the table needs a slug");
  std::vector<Column> columns;
  for (const std::string& word : slugs) columns.push_back(column_of(word));
  std::string operation;
  for (const Result& r : results) {
    if (operation.empty() && r.implementation == columns[0].slug) operation = r.operation;
  }
  const std::vector<Result> found = only(results, [&](const Result& r) {
    return is_wanted(r) && std::ranges::any_of(columns, [&](const Column& column) {
             const std::string& wanted = column.operation.empty() ? operation : column.operation;
             return r.implementation == column.slug &&
                    (r.operation == wanted || is_variant(r.implementation));
           });
  });
  const Slugs known = implementations_of(found);
  for (const auto& [slug, its_operation] : columns) {
    if (std::ranges::find(known, slug) == known.end())
      throw std::runtime_error(fmt::format("there is no result of '{}' {}", slug, where));
  }
  return found;
}

/// The word behind "lesson" that asks for the spread beside every time.
constexpr const char* kWithSpreads = "spread";

/// What the words behind "lesson" ask for: slugs; before them types and regimes, if not all of
/// either are wanted.
std::string lesson(const std::vector<Result>& results, const Slugs& words) {
  const auto is_regime = [&](const std::string& word) {
    return std::ranges::count(results, word, &Result::regime) > 0;
  };
  const auto first_slug = std::ranges::find_if(words, [&](const std::string& word) {
    return word != kWithSpreads && !is_dtype(word) && !is_regime(word);
  });
  Slugs types, regimes;
  for (auto word = words.begin(); word != first_slug; ++word)
    (is_dtype(*word) ? types : regimes).push_back(*word);
  const bool has_spreads = std::erase(regimes, kWithSpreads) > 0;
  const Slugs slugs(first_slug, words.end());
  const auto is_among = [](const Slugs& wanted, const std::string& word) {
    return wanted.empty() || std::ranges::find(wanted, word) != wanted.end();
  };
  const auto is_wanted = [&](const Result& r) {
    return !is_sweep(r.regime) && r.regime != kCustomRegime && is_among(types, r.dtype) &&
           is_among(regimes, r.regime);
  };
  return lesson_table(
      results_of(results, slugs, "outside the sweeps", is_wanted), slugs, has_spreads);
}

// --- best

/// Times that are no further apart count as the same.
constexpr double kAsFast = 1.01;

/// The first lesson that is as fast as the fastest of a shape; null if none was timed.
const Result* first_of_fastest(const std::vector<const Result*>& of_shape) {
  const Result* best = nullptr;
  for (const bool is_known : {false, true}) {
    for (const Result* r : of_shape) {
      if (!r->median_us || r->implementation == kLibrary || is_variant(r->implementation)) continue;
      if (is_known && *r->median_us <= kAsFast * *best->median_us) return r;
      if (!is_known && (best == nullptr || *r->median_us < *best->median_us)) best = r;
    }
  }
  return best;
}

std::string best_table(const std::vector<Result>& results) {
  std::vector<std::vector<const Result*>> shapes;
  for (const Result& r : results) {
    if (!r.cache || r.regime == kRowsSweep || r.dtype == "fp16") continue;
    const auto same = std::ranges::find_if(shapes, [&](const auto& of_shape) {
      return condition_of(*of_shape.front()) == condition_of(r) &&
             of_shape.front()->hidden == r.hidden;
    });
    (same == shapes.end() ? shapes.emplace_back() : *same).push_back(&r);
  }
  std::vector<Row> rows = {{"rows × hidden", "L2", "lesson", "its time", code(kLibrary)}};
  std::vector<const Result*> used;
  for (const auto& of_shape : shapes) {
    const Result* best = first_of_fastest(of_shape);
    const auto library = std::ranges::find(of_shape, kLibrary, &Result::implementation);
    if (best == nullptr || library == of_shape.end()) continue;
    const bool is_repeated = best->regime == kHiddenSweep && best->hidden < kLongRow &&
                             rows.back()[2] == code(best->implementation);
    if (is_repeated) continue;  // a length that is like the one above
    rows.push_back(
        {fmt::format("{} × {}, {}", best->rows, best->hidden, best->dtype), cache_text(*best),
         code(best->implementation), time_cell(*best), time_cell(**library)});
    used.insert(used.end(), {best, *library});
  }
  if (used.empty()) throw std::runtime_error("there are no lessons beside the library");
  return with_provenance(rows, used);
}

}  // namespace

std::string make_table(const std::vector<Result>& results, const std::vector<std::string>& words) {
  if (words.empty()) throw std::runtime_error("the kind of table is missing");
  const std::string& kind = words.front();
  const Slugs slugs(words.begin() + 1, words.end());
  if (kind == "ladder" || kind == "best") {
    if (slugs.size() != 1)
      throw std::runtime_error(fmt::format("'{}' needs an operation, and no more", kind));
    const std::vector<Result> all = of_operation(results, slugs.front());
    return kind == "best" ? best_table(all) : ladder(without_variants(all));
  }
  if (kind == "lesson") return lesson(results, slugs);
  if (kind == "errors") {
    const auto is_wanted = [](const Result& r) {
      return r.regime == kHiddenSweep && r.dtype == "fp32";
    };
    return errors_table(results_of(results, slugs, "in sweep_hidden", is_wanted), slugs);
  }
  if (kind == "unaligned" && of_regime(results, kUnalignedSweep).empty())
    return "Not recorded yet.\n";
  constexpr std::tuple<const char*, const char*, bool (*)(const Result&)> kOfShapes[] = {
      {"unaligned", "in sweep_unaligned",
       [](const Result& r) { return r.regime == kUnalignedSweep; }},
      {"long", "of long rows",
       [](const Result& r) {
         return r.regime == kHiddenSweep && r.dtype == "fp32" && r.hidden >= kLongRow;
       }},
      {"custom", "in problems of one's own",
       [](const Result& r) { return r.regime == kCustomRegime && r.cache == Cache::cold; }}};
  for (const auto& [name, where, is_wanted] : kOfShapes) {
    if (kind == name) return shapes_table(results_of(results, slugs, where, is_wanted), slugs);
  }
  throw std::runtime_error(fmt::format(
      "there is no table '{}'; there are ladder, best, lesson, errors, unaligned, long, custom, "
      "profile, limits, machine, peers, ranks, host, mutants and arithmetic",
      kind));
}

}  // namespace rmsnorm::plots
