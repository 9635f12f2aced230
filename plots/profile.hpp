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
  std::string lesson;
  std::string regime;
  std::string dtype;
  double rows;
  int hidden;
  double sectors_read;     ///< asked of global memory, 32 bytes each
  double sectors_written;  ///< likewise
  double dram_read;        ///< bytes that came from DRAM: the caches answered the rest
  double instructions;     ///< of all warps
  double registers;        ///< of a thread
  double active_warps;     ///< occupancy: mean share of an SM's places for warps in use, %
  std::string source;      ///< device, toolkit, revision and day
};

/// Reads a file that plots/profile.sh wrote. \throws std::runtime_error with the file and the line.
std::vector<Profile> read_profiles(const std::filesystem::path& file);

/// The table for "profile REGIME [DTYPE] SLUG...", in fp32 if no type is named: what was counted,
/// beside what the lesson predicted.
/// \throws std::runtime_error if something is missing in the words or in the counts.
std::string make_profile_table(
    const std::vector<Result>& results, const std::vector<Profile>& profiles,
    const std::vector<std::string>& words);

}  // namespace rmsnorm::plots
