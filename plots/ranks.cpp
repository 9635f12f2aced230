#include "plots/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "common/records/csv_fields.hpp"
#include "plots/format.hpp"

namespace rmsnorm::plots {

std::vector<RankSum> read_ranks(const std::filesystem::path& file) {
  return csv::read_rows<RankSum>(file, [](auto& s, auto&& visit) {
    visit("implementation", s.implementation), visit("ranks", s.ranks), visit("gpus", s.gpus);
    visit("dtype", s.dtype), visit("rows", s.rows), visit("hidden", s.hidden);
    visit("bytes_of_rank", s.bytes), visit("median_us", s.median_us);
    visit("spread_pct", s.spread_pct), visit("samples", s.samples), visit("verdict", s.verdict);
    visit("device", s.device), visit("driver", s.driver), visit("cuda", s.cuda);
    visit("torch", s.torch), visit("revision", s.version), visit("date", s.date);
  });
}

std::string make_ranks_table(
    const std::vector<RankSum>& sums, const std::vector<std::string>& words) {
  if (words.size() != 1) throw std::runtime_error("'ranks' needs a number of columns");
  std::vector<std::string> names;
  std::map<int, std::map<std::string, const RankSum*>> rows;
  for (const RankSum& sum : sums) {
    if (fmt::format("{}", sum.hidden) != words[0] || !sum.median_us || sum.verdict != "pass")
      continue;
    if (std::find(names.begin(), names.end(), sum.implementation) == names.end())
      names.push_back(sum.implementation);
    rows[sum.rows][sum.implementation] = &sum;
  }
  if (rows.empty())
    throw std::runtime_error(fmt::format("no sum of rows of {} was timed", words[0]));
  const RankSum& one = *rows.begin()->second.begin()->second;
  std::vector<TableRow> table = {
      {fmt::format("rows × {}, {}, {} ranks", one.hidden, one.dtype, one.ranks)}};
  for (const std::string& name : names) table[0].push_back(code(name));
  for (const RankSum& sum : sums) {
    if (sum.ranks != one.ranks || sum.gpus != one.gpus || sum.dtype != one.dtype ||
        sum.version != one.version)
      throw std::runtime_error("sums over ranks are of several runs");
  }
  for (const auto& [number, of_row] : rows) {
    TableRow& row = table.emplace_back(TableRow{fmt::format("{}", number)});
    for (const std::string& name : names) {
      const auto found = of_row.find(name);
      row.push_back(
          found == of_row.end() ? kNothing
                                : fmt::format(
                                      "{:.{}f} µs ± {:.0f} %", *found->second->median_us,
                                      *found->second->median_us < 100 ? 1 : 0,
                                      found->second->spread_pct.value_or(0)));
    }
  }
  return markdown_table(table) +
         fmt::format(
             "\nMeasured on {} of {}, driver {}, CUDA {}, commit `{}`, {}.\n", one.gpus, one.device,
             one.driver, one.cuda, one.version, one.date);
}

}  // namespace rmsnorm::plots
