#pragma once
/// \file
/// What plots/ranks.py measured of sums over ranks, and its table and chart.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plots/chart.hpp"

namespace rmsnorm::plots {

/// What a sum took, with the residual add and the norm, on the slowest rank.
struct RankSum {
  std::string implementation;
  int ranks = 0;
  int gpus = 0;
  std::string dtype;
  int rows = 0;
  int hidden = 0;
  long long bytes = 0;              ///< of a rank's x
  std::optional<double> median_us;  ///< none where ranks share a GPU
  std::optional<double> spread_pct;
  int samples = 0;
  std::string verdict;
  std::string device, driver, cuda, torch, version, date;
};

/// Reads a file that ranks.py wrote. \throws std::runtime_error with the file and the line.
std::vector<RankSum> read_ranks(const std::filesystem::path& file);

/// Those of rows of so many columns that were timed, and are right.
/// \throws std::runtime_error if the sums are of several runs
std::vector<RankSum> timed_sums(const std::vector<RankSum>& sums, int hidden);

/// The table that "ranks HIDDEN" asks for: a row for each number of rows of so many columns, with
/// the times of all implementations, and where they were measured.
/// \throws std::runtime_error for other words, if no such sum was timed, and as timed_sums()
std::string make_ranks_table(
    const std::vector<RankSum>& sums, const std::vector<std::string>& words);

/// How many times as fast as NCCL's sum each other is, over the bytes of a rank's x, for rows of
/// 8192 columns. Nothing if none was timed.
std::optional<Chart> ranks_chart(const std::vector<RankSum>& sums);

}  // namespace rmsnorm::plots
