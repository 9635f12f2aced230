#pragma once
/// \file
/// How numbers and tables are written, the same everywhere.

#include <cstdint>
#include <string>
#include <vector>

namespace rmsnorm::plots {

/// A time with three or four significant digits: "1.62 µs", "16.2 µs", "2094 µs".
std::string microseconds(double us);

/// The number of such a text, for a column whose head has the unit.
std::string without_unit(const std::string& text);

/// A rate: "4118 GB/s"; "3.1 GB/s" where a whole number would say too little.
std::string gigabytes_per_second(double gbps);

/// A share: "97 %"; "2.1 %" below ten.
std::string percent(double pct);

/// How many times as much: "1.03", "12.4".
std::string factor(double times);

/// A length: "512", "4k", "256k", "24M", "1G": in the largest unit of which it is a multiple, each
/// 1024 times the one before.
std::string binary_count(std::int64_t count);

/// Bytes in such units: "96 bytes", "24 MiB".
std::string binary_bytes(std::int64_t bytes);

/// Bytes that are no whole number of a unit: "5.4 KiB", "12 KiB".
std::string kibibytes(double bytes);

/// What stands in a cell that has nothing to show.
inline constexpr const char* kNothing = "-";

/// The texts of a row's cells.
using TableRow = std::vector<std::string>;

/// A table in Markdown. The first row is the header; all columns but the first are aligned to the
/// right.
std::string markdown_table(const std::vector<TableRow>& rows);

/// The text as Markdown's code.
std::string code(const std::string& text);

}  // namespace rmsnorm::plots
