#pragma once
/// \file
/// The place at which a thread has come to a barrier. Its line is not enough: two branches may call
/// one function that waits.

#include <array>
#include <cstdint>

#include "common/cpu_device/scheduler/place.hpp"

namespace rmsnorm::cpu_device {

/// A number for the way that the running thread has come since it last met others: it changes at
/// each place of the code (coverage.cpp).
inline std::uint64_t way = 0;

/// The call of a barrier, and the calls that it is in.
struct Arrival {
  static constexpr int kCalls = 4;  ///< the innermost, not counting those that are inlined
  Place place;                      ///< of the barrier's own call
  /// Where these calls return to, the innermost first; then nulls.
  std::array<const void*, kCalls> calls{};

  /// Whether it is certainly the same: no address differs.
  bool operator==(const Arrival& other) const {
    return same_place(place, other.place) && calls == other.calls;
  }
};

/// That of the running code, on a stack that ends at `stack_end`. Follows the frame pointers, which
/// kernels keep (Kernels.cmake).
[[gnu::always_inline]] inline Arrival arrival_at(Place place, const void* stack_end) {
  Arrival arrival{place};
  const auto* frame = static_cast<const void* const*>(__builtin_frame_address(0));
  for (const void*& call : arrival.calls) {
    const auto* const next = static_cast<const void* const*>(*frame);
    call = frame[1];
    // Who keeps none may have left anything there.
    if (next <= frame || next + 2 > stack_end) break;
    frame = next;
  }
  return arrival;
}

}  // namespace rmsnorm::cpu_device
