#include "plots/profile.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "common/cpu_device/interface/watching.hpp"
#include "common/records/csv_fields.hpp"
#include "plots/format.hpp"
#include "plots/select.hpp"

namespace rmsnorm::plots {
namespace {

/// Calls visit(name, field) for every field of a profile, in the header's order.
constexpr auto for_each_field = [](auto& p, auto&& visit) {
  visit("operation", p.operation), visit("implementation", p.implementation);
  visit("regime", p.regime), visit("dtype", p.dtype), visit("rows", p.rows);
  visit("hidden", p.hidden), visit("sectors_read", p.sectors_read);
  visit("sectors_written", p.sectors_written), visit("dram_bytes_read", p.dram_read);
  visit("dram_bytes_written", p.dram_written);
  visit("instructions", p.instructions), visit("registers", p.registers);
  visit("active_warps_pct", p.active_warps), visit("device", p.device), visit("cuda", p.cuda);
  visit("version", p.version), visit("date", p.date);
};

/// The word that leaves out registers and occupancy.
constexpr const char* kBrief = "brief";

}  // namespace

std::string source_of(const Profile& p) {
  return fmt::format(
      "Counted by ncu on {}, CUDA {}, commit {}, {}", p.device, p.cuda, code(p.version), p.date);
}

std::vector<Profile> read_profiles(const std::filesystem::path& file) {
  return csv::read_rows<Profile>(file, for_each_field);
}

std::string make_profile_table(
    const std::vector<Result>& results, const std::vector<Profile>& profiles,
    const std::vector<std::string>& words) {
  const bool is_brief = words.size() > 1 && words[1] == kBrief;
  std::vector<std::string> other_words = words;
  if (is_brief) other_words.erase(other_words.begin() + 1);
  const auto [regime, has_dtype, dtype, slugs] = wanted_by(other_words);
  std::vector<TableRow> rows = {
      {has_dtype ? regime + ", " + dtype : regime, "bytes per row, predicted", "counted",
       "from DRAM per row", "to DRAM per row", "instructions per row", "registers", "occupancy"}};
  std::string source;
  const auto whole = [](double number) { return fmt::format("{:.0f}", number); };
  for (const std::string& slug : slugs) {
    const Profile* p = find_row(profiles, slug, regime, dtype);
    const Result* r = find_row(results, slug, regime, dtype);
    if (p == nullptr || r == nullptr) {
      throw std::runtime_error(fmt::format(
          "there is no {} of '{}' in '{}', {}", p == nullptr ? "profile" : "result", slug, regime,
          dtype));
    }
    rows.push_back(
        {code(slug), whole(r->bytes_per_row_predicted),
         whole(kSectorBytes * (p->sectors_read + p->sectors_written) / p->rows),
         whole(p->dram_read / p->rows), whole(p->dram_written / p->rows),
         whole(p->instructions / p->rows), whole(p->registers), whole(p->active_warps) + " %"});
    source = source_of(*p);
  }
  if (is_brief) {
    for (TableRow& row : rows) row.resize(row.size() - 2);
  }
  return fmt::format("{}\n{}.\n", markdown_table(rows), source);
}

}  // namespace rmsnorm::plots
