#include "plots/arithmetic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/records/csv_fields.hpp"
#include "plots/format.hpp"

namespace rmsnorm::plots {

std::vector<ComparedFunction> read_compared_functions(const std::filesystem::path& file) {
  return csv::read_rows<ComparedFunction>(file, [](auto& f, auto&& visit) {
    visit("function", f.function), visit("values", f.values), visit("different", f.different);
    visit("nans", f.nans), visit("kinds", f.kinds), visit("steps", f.steps), visit("size", f.size);
    visit("digest", f.digest);
    visit("device", f.device), visit("version", f.version);
  });
}

namespace {

/// Adds a name, as code. Of functions that only round in other directions, there is one name.
void add_name(std::vector<std::string>& names, const std::string& name) {
  const std::size_t end = name.size() - std::min<std::size_t>(name.size(), 2);
  const std::string direction = name.substr(end);
  const bool is_other = direction == "rz" || direction == "ru" || direction == "rd";
  if (is_other && !names.empty() && names.back().starts_with("`" + name.substr(0, end) + "rn")) {
    names.back().insert(names.back().size() - 1, "/" + direction);
  } else {
    names.push_back(code(name));
  }
}

/// How far the results are from a GPU's.
std::string distance(const ComparedFunction& f) {
  constexpr long long kManySteps = 1000;
  const std::string kinds = f.kinds == 0 ? "" : fmt::format("; {} of one are NaN", f.kinds);
  if (f.steps == 0) return "the sign of 0" + kinds;
  if (f.steps <= kManySteps)
    return fmt::format("{} {}{}", f.steps, f.steps == 1 ? "step" : "steps", kinds);
  return f.size > 0 ? fmt::format("{:.1e} in all{}", f.size, kinds) : "any number" + kinds;
}

}  // namespace

std::string make_arithmetic_table(const std::vector<ComparedFunction>& functions) {
  if (functions.empty()) return "Not recorded yet.\n";
  std::vector<std::string> same;
  std::vector<std::string> same_but_nan;
  std::vector<TableRow> table = {{"function", "different", "by at most"}};
  for (const ComparedFunction& f : functions) {
    if (f.different == f.nans) {
      add_name(f.different == 0 ? same : same_but_nan, f.function);
      continue;
    }
    table.push_back({code(f.function), fmt::format("{}", f.different - f.nans), distance(f)});
  }
  const ComparedFunction& first = functions.front();
  const auto identical = std::ranges::count(functions, 0, &ComparedFunction::different);
  return fmt::format(
      "Compared with {}, {} values each, commit {}.\n\n<details><summary>The same bits: {} of {} "
      "functions</summary>\n\n{}.\n\n</details>\n\nThe same, but for the bits of a NaN: "
      "{}.\n\nOthers:\n\n{}",
      first.device, first.values, code(first.version), identical, functions.size(),
      fmt::join(same, ", "), fmt::join(same_but_nan, ", "), markdown_table(table));
}

}  // namespace rmsnorm::plots
