#pragma once
/// \file
/// What ./rmsnorm machine measured of a GPU's memories, and its tables in the pages.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/records/machine_row.hpp"

namespace rmsnorm::plots {

/// Reads a file that ./rmsnorm machine wrote.
/// \throws std::runtime_error with the file and the line, also if a row lacks what its probe
/// measures; if there is no row, or if rows are of several GPUs
std::vector<MachineRow> read_machine(const std::filesystem::path& file);

/// The number of SMs of a GPU. \throws std::runtime_error if it is not known here
double sms_of(const std::string& device);

/// The rows of a probe, as in "latency" of "global".
std::vector<MachineRow> rows_of(
    const std::vector<MachineRow>& rows, const std::string& probe, const std::string& memory);

/// Neighbouring working sets, whose loads take about as long: the same memory answers them.
struct Level {
  std::int64_t smallest;  ///< set, in bytes
  std::int64_t largest;   ///< likewise
  double cycles;          ///< of a load, the median of these sets
  double ns;              ///< likewise
};

/// The memories behind a load from global memory.
struct Levels {
  Level l1;    ///< the first level
  Level l2;    ///< the second
  Level dram;  ///< the last
};

/// The levels of the latency of global memory. A level is at least four sets, two octaves, that
/// differ by less than 3 %. \throws std::runtime_error if there are fewer than three
Levels levels_of(const std::vector<MachineRow>& rows);

/// The bytes that an SM has in flight while a bandwidth is measured.
double in_flight_of(const MachineRow& bandwidth);

/// Nearly the best bandwidth of a memory, in % of it.
inline constexpr double kNearlyBest = 95;

/// How fast a memory can be read.
struct Reach {
  MachineRow best;    ///< the largest bandwidth
  MachineRow fewest;  ///< the fewest bytes in flight with nearly the best
};

/// What was reached with a memory. \throws std::runtime_error if nothing was measured
Reach reach_of(const std::vector<MachineRow>& rows, const std::string& memory);

/// The table that the words behind "results:begin machine" ask for:
///
///     latency       how long a load takes that is alone, from each memory
///     banks         the latency of shared memory over the lanes' stride
///     bandwidth     of each memory, and the bytes in flight that it takes
///     instructions  how many results of each an SM has in a cycle
///
/// Ends with a line on where it was measured. \throws std::runtime_error if the words or rows lack
/// something
std::string make_machine_table(
    const std::vector<MachineRow>& rows, const std::vector<std::string>& words);

}  // namespace rmsnorm::plots
