#pragma once
/// \file
/// Where the call stacks of two arrivals at a barrier diverge in the source.

#include <optional>

#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/scheduler/arrival.hpp"

namespace rmsnorm::cpu_device {

/// The lines of two calls.
struct LinePair {
  SourceLine first;   ///< of the one arrival
  SourceLine second;  ///< of the other
};

/// Where two arrivals diverge: the lines of the barriers or, if these are the same, of the
/// innermost calls that are not. Compilers copy code, so other addresses are not yet another
/// place.
std::optional<LinePair> difference(const Arrival& first, const Arrival& second);

}  // namespace rmsnorm::cpu_device
