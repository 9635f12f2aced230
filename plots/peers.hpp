#pragma once
/// \file
/// The results of peers.py: librmsnorm beside other libraries. A regime is an operation there, on
/// many shapes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/contract/regime.hpp"
#include "common/records/result.hpp"

namespace rmsnorm::plots {

/// The regime that most cases are of: RMSNorm alone.
inline constexpr const char* kForwardRegime = "forward";

/// What all implementations do alike: an operation on tensors of one type and shape.
struct PeerCase {
  std::string regime;
  std::string dtype;
  std::int64_t rows;
  std::int64_t hidden;
  std::vector<const Result*> results;  ///< of implementations_of(all); null where there is none
  std::optional<double> roof_gbps;     ///< the roof's bandwidth, if anything was timed
  std::optional<double> roof_us;       ///< its time, with as many bytes as have to be moved
  std::string roof;                    ///< the ratio of its reads to its writes
  bool is_copy;                        ///< whether it is a copy

  /// Whether the time matters, and not the bandwidth: so few rows that no memory is busy.
  bool is_about_time() const { return regime.starts_with(kDecodeRegime); }
  /// Whether y has 8 bits. No chart has these cases: they are for tables.
  bool is_in_8_bits() const {
    return regime.find("_e4m3") != std::string::npos || regime.find("_mxfp8") != std::string::npos;
  }
  /// The regime in words: "residual add".
  std::string name() const;
};

/// librmsnorm's result in a case, and the best of the others; null if none was timed.
struct Race {
  const Result* ours = nullptr;
  const Result* best = nullptr;

  /// Whether ours is at least as fast.
  bool is_won() const { return ours && (!best || *ours->median_us <= *best->median_us); }
};
Race race_of(const PeerCase& which);

/// The cases, in the order of the file. They point to the results.
std::vector<PeerCase> peer_cases_of(const std::vector<Result>& results);

/// The table that the words behind "results:begin peers" ask for:
///
///     REGIME...   a row for each case of these regimes; share of the roof's bandwidth in per cent,
///                 or the time in microseconds where that matters; the best in bold;
///                 librmsnorm's column is the first
///     versions    the implementations' versions
///     standings   in how many cases librmsnorm is first, and who is faster in the others
///
/// Ends with a newline.
/// \throws std::runtime_error if a word is missing, if there are no results for one, or if one
/// regime is about time and another is not
std::string make_peers_table(
    const std::vector<Result>& results, const std::vector<std::string>& words);

/// The table of the results of host_cost.py: what a call costs the CPU. Ends with a newline.
/// \throws std::runtime_error if there are none
std::string make_host_table(const std::vector<Result>& results);

}  // namespace rmsnorm::plots
