#include "plots/ranks.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <stdexcept>

#include "common/records/csv_fields.hpp"
#include "plots/format.hpp"
#include "plots/select.hpp"

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

std::vector<RankSum> timed_sums(const std::vector<RankSum>& sums, int hidden) {
  std::vector<RankSum> timed;
  for (const RankSum& sum : sums) {
    if (sum.ranks != sums[0].ranks || sum.gpus != sums[0].gpus || sum.dtype != sums[0].dtype ||
        sum.version != sums[0].version)
      throw std::runtime_error("sums over ranks are of several runs");
    if (sum.hidden == hidden && sum.median_us && sum.verdict == "pass") timed.push_back(sum);
  }
  return timed;
}

std::string make_ranks_table(
    const std::vector<RankSum>& sums, const std::vector<std::string>& words) {
  int hidden = 0;
  if (words.size() != 1 || std::sscanf(words[0].c_str(), "%d", &hidden) != 1)
    throw std::runtime_error("'ranks' needs a number of columns");
  const std::vector<RankSum> timed = timed_sums(sums, hidden);
  if (timed.empty())
    throw std::runtime_error(fmt::format("no sum of rows of {} was timed", hidden));
  std::vector<std::string> names;
  std::map<int, std::map<std::string, const RankSum*>> rows;
  for (const RankSum& sum : timed) {
    add_if_new(names, sum.implementation);
    rows[sum.rows][sum.implementation] = &sum;
  }
  const RankSum& one = timed[0];
  std::vector<TableRow> table = {
      {fmt::format("rows × {}, {}, {} ranks", one.hidden, one.dtype, one.ranks)}};
  for (const std::string& name : names) table[0].push_back(code(name));
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
             "\nMeasured on {} × {}, driver {}, CUDA {}, commit `{}`, {}.\n", one.gpus, one.device,
             one.driver, one.cuda, one.version, one.date);
}

}  // namespace rmsnorm::plots
