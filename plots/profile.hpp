#pragma once
/// \file
/// What NVIDIA's profiler counted (plots/profile.sh), and its tables in the pages.

#include <filesystem>
#include <string>
#include <vector>

#include "common/records/result.hpp"

namespace rmsnorm::plots {

/// Counts of one launch, caches cold.
struct Profile {
  std::string operation;
  std::string implementation;
  std::string regime;
  std::string dtype;
  double rows = 0;
  int hidden = 0;
  double sectors_read = 0;     ///< asked of global memory, 32 bytes each
  double sectors_written = 0;  ///< likewise
  double dram_read = 0;        ///< bytes that came from DRAM: the caches answered the rest
  double dram_written = 0;     ///< bytes that went there
  double instructions = 0;     ///< of all warps
  double registers = 0;        ///< of a thread
  double active_warps = 0;     ///< occupancy: mean share of an SM's places for warps in use, %
  std::string device;
  std::string cuda;     ///< the toolkit's version
  std::string version;  ///< the revision
  std::string date;
};

/// Where it was counted, in Markdown: device, toolkit, revision and day.
std::string source_of(const Profile& profile);

/// Reads a file that plots/profile.sh wrote. \throws std::runtime_error with the file and the line.
std::vector<Profile> read_profiles(const std::filesystem::path& file);

/// The table for "profile [brief] REGIME [DTYPE] SLUG...", in fp32 if no type is named: what was
/// counted, beside what the lesson predicted; "brief" is without registers and occupancy.
/// \throws std::runtime_error if something is missing in the words or in the counts.
std::string make_profile_table(
    const std::vector<Result>& results, const std::vector<Profile>& profiles,
    const std::vector<std::string>& words);

}  // namespace rmsnorm::plots
