#pragma once
/// \file
/// Which way a thread has come.

#include <cstdint>

namespace rmsnorm::cpu_device {

/// A number for the way that the running thread has come since it last met others: it changes at
/// each place of the code (coverage.cpp).
inline std::uint64_t way = 0;

}  // namespace rmsnorm::cpu_device
