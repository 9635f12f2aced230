#pragma once
/// \file
/// The results of peers.py: what `lesson` names there is a contender, a library or a way of using
/// it, and what `commit` names is its version.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/records/result.hpp"

namespace rmsnorm::plots {

/// What all contenders do alike: an operation on tensors of one type and shape.
struct PeerCase {
  std::string regime;  ///< the operation
  std::string dtype;
  std::int64_t rows;
  std::int64_t hidden;
  bool operator==(const PeerCase&) const = default;
};

/// Reads a results file of peers.py.
/// \throws std::runtime_error as read_csv does; also if there is no result, or two results of one
/// contender for one case.
std::vector<Result> load_peers(const std::filesystem::path& file);

/// The contenders, in the order of the file.
std::vector<std::string> contenders_of(const std::vector<Result>& results);

/// The cases, in the order of the file.
std::vector<PeerCase> peer_cases_of(const std::vector<Result>& results);

/// A contender's result in a case, or null.
const Result* find_peer(
    const std::vector<Result>& results, const PeerCase& which, const std::string& contender);

/// The copy's bandwidth in a case, GB/s, if anything was timed there.
std::optional<double> copy_gbps_of(const std::vector<Result>& results, const PeerCase& which);

/// The copy's time in a case, microseconds: a copy of as many bytes as the operation must move.
std::optional<double> copy_us_of(const std::vector<Result>& results, const PeerCase& which);

/// Whether the time matters, and not the bandwidth: so few rows that no memory is busy.
bool is_about_time(const PeerCase& which);

/// The operation in words: "residual add".
std::string operation_of(const PeerCase& which);

/// The table that the words behind "results:begin peers" ask for:
///
///     REGIME...   a row for each case of these regimes; share of the copy's bandwidth in per cent,
///                 or the time in microseconds where that matters; the best in bold
///     versions    the contenders' versions
///
/// Ends with a newline.
/// \throws std::runtime_error if a word is missing, if there are no results for one, or if one
/// regime is about time and another is not
std::string make_peers_table(
    const std::vector<Result>& results, const std::vector<std::string>& words);

}  // namespace rmsnorm::plots
