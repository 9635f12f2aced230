#pragma once
/// \file
/// Where two threads that have come to a barrier differ in the source.

#include <optional>

#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/scheduler/arrival.hpp"

namespace rmsnorm::cpu_device {

/// The lines of two calls.
struct TwoLines {
  SourceLine first;   ///< of the one arrival
  SourceLine second;  ///< of the other
};

/// Where two arrivals differ in the source: the lines of the barriers or, if these are the same, of
/// the innermost calls that are not. Compilers copy code, so other addresses are not yet another
/// place.
std::optional<TwoLines> difference(const Arrival& first, const Arrival& second);

}  // namespace rmsnorm::cpu_device
