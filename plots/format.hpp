#pragma once
/// \file
/// How numbers are written, the same in every table and chart.

#include <cstdint>
#include <string>

namespace rmsnorm::plots {

/// A time with three or four significant digits: "1.62 µs", "16.2 µs", "2094 µs".
std::string microseconds(double us);

/// A rate: "4118 GB/s"; "3.1 GB/s" where a whole number would say too little.
std::string gigabytes_per_second(double gbps);

/// A share: "97 %"; "2.1 %" below ten.
std::string percent(double pct);

/// A length: "512", "4k", "256k" where it is a multiple of 1024, else all its digits.
std::string binary_count(std::int64_t count);

}  // namespace rmsnorm::plots
