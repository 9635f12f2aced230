#pragma once
/// \file
/// The state of the L2 cache in which a launch is timed.

namespace rmsnorm {

/// Whether the tensors are in the L2 cache when a timed launch starts.
enum class Cache {
  cold,  ///< they are not: a launch finds nothing there
  warm,  ///< they are, as far as they fit
};

/// "cold" or "warm", as files and tables have it.
constexpr const char* to_string(Cache cache) {
  return cache == Cache::cold ? "cold" : "warm";
}

}  // namespace rmsnorm
