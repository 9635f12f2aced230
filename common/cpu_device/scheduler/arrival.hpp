#pragma once
/// \file
/// Barrier arrivals: the source location, and the call stack. The line alone is not enough: two
/// branches may call one function that waits.

#include <array>
#include <cstdint>

#include "common/cpu_device/scheduler/source_location.hpp"

namespace rmsnorm::cpu_device {

/// Path hash of the running thread: of the basic blocks that it has run since it last synchronised
/// with others (coverage.cpp).
inline std::uint64_t path_hash = 0;

/// A thread's arrival at a barrier, and its call stack.
struct Arrival {
  static constexpr int kCalls = 4;  ///< depth of the call stack, without inlined calls
  SourceLocation location;          ///< of the barrier's own call
  /// Return addresses, the innermost first; then nulls.
  std::array<const void*, kCalls> calls{};

  /// Whether they are the same for certain: no address differs.
  bool operator==(const Arrival& other) const {
    return is_same_line(location, other.location) && calls == other.calls;
  }
};

/// Arrival of the running code, on a stack that ends at `stack_end`. Follows the frame pointers,
/// which kernels keep (Kernels.cmake).
[[gnu::always_inline]] inline Arrival arrival_at(SourceLocation location, const void* stack_end) {
  Arrival arrival{location};
  const auto* frame = static_cast<const void* const*>(__builtin_frame_address(0));
  for (const void*& call : arrival.calls) {
    const auto* const next = static_cast<const void* const*>(*frame);
    call = frame[1];
    // A function without a frame pointer may have left anything there.
    if (next <= frame || next + 2 > stack_end) break;
    frame = next;
  }
  return arrival;
}

}  // namespace rmsnorm::cpu_device
