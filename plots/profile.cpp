#include "plots/profile.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "common/csv.hpp"
#include "common/observation.hpp"

namespace rmsnorm::plots {
namespace {

constexpr const char* kHeader =
    "lesson,regime,rows,hidden,sectors_read,sectors_written,dram_bytes_read,instructions,"
    "registers,active_warps_pct,device,cuda,commit,date";

const Profile& find_profile(
    const std::vector<Profile>& profiles, const std::string& slug, const std::string& regime) {
  for (const Profile& profile : profiles) {
    if (profile.lesson == slug && profile.regime == regime) return profile;
  }
  throw std::runtime_error(fmt::format("there is no profile of '{}' in '{}'", slug, regime));
}

const Result& find_result_in(
    const std::vector<Result>& results, const std::string& slug, const std::string& regime) {
  for (const Result& result : results) {
    if (result.lesson == slug && result.regime == regime) return result;
  }
  throw std::runtime_error(fmt::format("there is no result of '{}' in '{}'", slug, regime));
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
          .regime = field[1],
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
  if (words.size() < 3) throw std::runtime_error("'profile' needs a regime and a slug");
  const std::string& regime = words[1];

  std::string table = fmt::format(
      "| {} | bytes a row, predicted | counted | from DRAM a row | instructions a row | registers "
      "| "
      "occupancy |\n|---|---:|---:|---:|---:|---:|---:|\n",
      regime);
  std::string source;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const Profile& p = find_profile(profiles, words[i], regime);
    const Result& r = find_result_in(results, words[i], regime);
    table += fmt::format(
        "| `{}` | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} % |\n", words[i],
        r.bytes_per_row_predicted, kSectorBytes * (p.sectors_read + p.sectors_written) / p.rows,
        p.dram_read / p.rows, p.instructions / p.rows, p.registers, p.active_warps);
    source = p.source;
  }
  return fmt::format("{}\n{}.\n", table, source);
}

}  // namespace rmsnorm::plots
