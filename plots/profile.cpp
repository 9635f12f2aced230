#include "plots/profile.hpp"

#include <fmt/format.h>

#include <cctype>
#include <stdexcept>

#include "common/base/observation.hpp"
#include "common/records/csv.hpp"

namespace rmsnorm::plots {
namespace {

constexpr const char* kHeader =
    "lesson,regime,rows,hidden,sectors_read,sectors_written,dram_bytes_read,instructions,"
    "registers,active_warps_pct,device,cuda,commit,date";

/// The profile or the result of a lesson in a regime, with tensors of a type.
template <class Row>
const Row& find(
    const std::vector<Row>& rows, const char* kind, const std::string& slug,
    const std::string& regime, const std::string& dtype) {
  for (const Row& row : rows) {
    if (row.lesson == slug && row.regime == regime && row.dtype == dtype) return row;
  }
  throw std::runtime_error(
      fmt::format("there is no {} of '{}' in '{}', {}", kind, slug, regime, dtype));
}

}  // namespace

std::vector<Profile> read_profiles(const std::filesystem::path& file) {
  std::vector<Profile> profiles;
  std::size_t line = 1;
  for (const std::vector<std::string>& field : read_records(file, kHeader)) {
    ++line;
    try {
      profiles.push_back(Profile{
          .lesson = field[0],
          .regime = field[1].substr(0, field[1].find(' ')),
          .dtype = field[1].find(' ') == std::string::npos
                       ? "fp32"
                       : field[1].substr(field[1].find(' ') + 1),
          .rows = std::stod(field[2]),
          .hidden = std::stoi(field[3]),
          .sectors_read = std::stod(field[4]),
          .sectors_written = std::stod(field[5]),
          .dram_read = std::stod(field[6]),
          .instructions = std::stod(field[7]),
          .registers = std::stod(field[8]),
          .active_warps = std::stod(field[9]),
          .source = fmt::format(
              "Counted by ncu on {}, CUDA {}, commit `{}`, {}", field[10], field[11], field[12],
              field[13])});
    } catch (const std::logic_error&) {
      throw std::runtime_error(
          fmt::format("{}: line {} has a field that is not a number", file.string(), line));
    }
  }
  return profiles;
}

std::string make_profile_table(
    const std::vector<Result>& results, const std::vector<Profile>& profiles,
    const std::vector<std::string>& words) {
  const bool has_dtype =
      words.size() > 2 && std::isdigit(words[2].front()) == 0;  // slugs begin with one
  const std::size_t first = has_dtype ? 3 : 2;
  if (words.size() <= first) throw std::runtime_error("'profile' needs a regime and a slug");
  const std::string& regime = words[1];
  const std::string dtype = has_dtype ? words[2] : "fp32";

  std::string table = fmt::format(
      "| {} | bytes a row, predicted | counted | from DRAM a row | instructions a row | registers "
      "| "
      "occupancy |\n|---|---:|---:|---:|---:|---:|---:|\n",
      has_dtype ? regime + ", " + dtype : regime);
  std::string source;
  for (std::size_t i = first; i < words.size(); ++i) {
    const Profile& p = find(profiles, "profile", words[i], regime, dtype);
    const Result& r = find(results, "result", words[i], regime, dtype);
    table += fmt::format(
        "| `{}` | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} % |\n", words[i],
        r.bytes_per_row_predicted, kSectorBytes * (p.sectors_read + p.sectors_written) / p.rows,
        p.dram_read / p.rows, p.instructions / p.rows, p.registers, p.active_warps);
    source = p.source;
  }
  return fmt::format("{}\n{}.\n", table, source);
}

}  // namespace rmsnorm::plots
