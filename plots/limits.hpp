#pragma once
/// \file
/// What limits a kernel: the bytes of x that it has in flight, and what it reaches with them.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/records/result.hpp"
#include "plots/profile.hpp"

namespace rmsnorm::plots {

/// What plots/loads_in_flight.py read in the SASS of the kernel that was counted.
struct Loads {
  std::string implementation;
  std::string regime;
  std::string dtype;
  std::string kernel;
  double threads = 0;           ///< that share a row
  double registers = 0;         ///< of a thread
  double spilled = 0;           ///< bytes of a thread, in local memory
  double x_at_once = 0;         ///< bytes of x that a thread asks for before it waits
  std::optional<double> waits;  ///< for global memory, a row; none if the kernel has loops
};

/// Nearly the copy's speed, in % of it.
inline constexpr double kNearlyAll = 98;

/// Reads a file that plots/loads_in_flight.py wrote.
/// \throws std::runtime_error with the file and the line
std::vector<Loads> read_loads(const std::filesystem::path& file);

/// An implementation in a regime, caches cold.
struct Limit {
  const Result* result;
  const Profile* profile;
  const Loads* loads;
  double in_flight;     ///< bytes of x that an SM has in flight when all its threads wait for x
  double share;         ///< bandwidth, in % of the copy's in prefill
  double ns;            ///< in_flight / the bytes of x that reach an SM in a nanosecond
  double instructions;  ///< of warps, for a KiB of x and y
  double issued;        ///< instructions, in % of those that all SMs can issue in its time
  double x_of_sm;       ///< bytes of x of the whole launch, an SM's share of them
  double gbps_of_roof;  ///< of the copy in prefill
};

/// All whose time, counts and loads were recorded, in the order of the profile. They point to the
/// arguments.
/// \throws std::runtime_error for a GPU whose number of SMs is not known here
std::vector<Limit> limits_of(
    const std::vector<Result>& results, const std::vector<Profile>& profiles,
    const std::vector<Loads>& loads);

/// Instructions of warps that the SMs can issue while a copy moves a KiB.
double instructions_in_time(const Limit& limit);

/// The one with the shortest `ns`: no kernel gets its bytes any sooner. `limits` is not empty.
const Limit& soonest(const std::vector<Limit>& limits);

/// The table that the words behind "results:begin limits" ask for:
///
///     law                       Little's law with its numbers, in fp32 and in bf16
///     law brief                 the same without what is compared with it
///     REGIME [DTYPE] SLUG...    what the given ones have in flight, and what they reach; fp32 if
///                               no type is named
///
/// Ends with a newline. \throws std::runtime_error if something is missing in the words or records
/// \param dram_ns the latency of DRAM that was measured; without it, the law's rows are empty
std::string make_limits_table(
    const std::vector<Limit>& limits, const std::vector<std::string>& words,
    std::optional<double> dram_ns = {});

}  // namespace rmsnorm::plots
