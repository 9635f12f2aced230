#include "plots/mutation.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <stdexcept>

#include "common/records/csv_fields.hpp"
#include "plots/format.hpp"

namespace rmsnorm::plots {
namespace {

constexpr std::array kVerdicts{"not compiled", "same code", "equivalent",
                               "rejected",     "no end",    "not found"};
/// The number of mutants for each of them.
using Counts = std::array<int, kVerdicts.size()>;

TableRow row_of(const std::string& name, const Counts& counts) {
  TableRow row = {name};
  for (const int count : counts) row.push_back(fmt::format("{}", count));
  const auto [not_compiled, same_code, equivalent, rejected, no_end, not_found] = counts;
  const int found = rejected + no_end;
  const int wrong = found + not_found;
  row.push_back(wrong == 0 ? kNothing : percent(100.0 * found / wrong));
  return row;
}

}  // namespace

std::vector<MutantCount> read_mutant_counts(const std::filesystem::path& file) {
  return csv::read_rows<MutantCount>(file, [](auto& c, auto&& visit) {
    visit("lesson", c.lesson), visit("operator", c.by), visit("verdict", c.verdict);
    visit("mutants", c.mutants);
  });
}

std::string make_mutants_table(
    const std::vector<MutantCount>& counts, const std::vector<std::string>& words) {
  const bool by_lesson = words == std::vector<std::string>{"lessons"};
  if (!by_lesson && words != std::vector<std::string>{"operators"})
    throw std::runtime_error("'mutants' needs 'lessons' or 'operators'");
  std::map<std::string, Counts> rows;
  Counts all = {};
  for (const MutantCount& count : counts) {
    std::size_t verdict = 0;
    while (verdict < kVerdicts.size() && kVerdicts[verdict] != count.verdict) ++verdict;
    if (verdict == kVerdicts.size())
      throw std::runtime_error(fmt::format("no mutant can be '{}'", count.verdict));
    rows[by_lesson ? code(count.lesson) : count.by][verdict] += count.mutants;
    all[verdict] += count.mutants;
  }
  std::vector<TableRow> table = {{by_lesson ? "lesson" : "edit"}};
  table[0].insert(table[0].end(), kVerdicts.begin(), kVerdicts.end());
  table[0].push_back("score");
  for (const auto& [name, of_name] : rows) table.push_back(row_of(name, of_name));
  table.push_back(row_of("all", all));
  return markdown_table(table);
}

}  // namespace rmsnorm::plots
