#pragma once
/// \file
/// Which lines of the L2 go first when it needs room: a hint that a load can carry.

namespace rmsnorm::cpu_device {

/// The hints, as PTX calls them.
enum class CachePolicy {
  normal,       ///< as all others
  evict_last,   ///< to stay while there are others to give up
  evict_first,  ///< to be given up before all others
};

/// "", "evict_last", "evict_first".
const char* to_string(CachePolicy policy);

/// The pointer for loads with this policy; where nobody watches the kernel, the same pointer.
const void* with_policy(const void* address, CachePolicy policy);

}  // namespace rmsnorm::cpu_device
