#include "plots/profile.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "common/base/watching.hpp"
#include "common/records/csv_fields.hpp"
#include "plots/format.hpp"

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

/// The profile or the result of an implementation in a regime, with tensors of a type.
template <class Row>
const Row& find(
    const std::vector<Row>& rows, const char* kind, const std::string& implementation,
    const std::string& regime, const std::string& dtype) {
  for (const Row& row : rows) {
    if (row.implementation == implementation && row.regime == regime && row.dtype == dtype)
      return row;
  }
  throw std::runtime_error(
      fmt::format("there is no {} of '{}' in '{}', {}", kind, implementation, regime, dtype));
}

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
  const bool has_dtype =
      words.size() > 2 && (words[2].starts_with("fp") || words[2].starts_with("bf"));
  const std::size_t first = has_dtype ? 3 : 2;
  if (words.size() <= first) throw std::runtime_error("'profile' needs a regime and a slug");
  const std::string& regime = words[1];
  const std::string dtype = has_dtype ? words[2] : "fp32";

  std::vector<TableRow> rows = {
      {has_dtype ? regime + ", " + dtype : regime, "bytes a row, predicted", "counted",
       "from DRAM a row", "to DRAM a row", "instructions a row", "registers", "occupancy"}};
  std::string source;
  const auto whole = [](double number) { return fmt::format("{:.0f}", number); };
  for (std::size_t i = first; i < words.size(); ++i) {
    const Profile& p = find(profiles, "profile", words[i], regime, dtype);
    const Result& r = find(results, "result", words[i], regime, dtype);
    rows.push_back(
        {code(words[i]), whole(r.bytes_per_row_predicted),
         whole(kSectorBytes * (p.sectors_read + p.sectors_written) / p.rows),
         whole(p.dram_read / p.rows), whole(p.dram_written / p.rows),
         whole(p.instructions / p.rows), whole(p.registers), whole(p.active_warps) + " %"});
    source = source_of(p);
  }
  return fmt::format("{}\n{}.\n", markdown_table(rows), source);
}

}  // namespace rmsnorm::plots
