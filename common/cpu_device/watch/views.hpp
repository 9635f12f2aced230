#pragma once
/// \file
/// Pointers that carry a cache policy. A GPU's compiler follows such a pointer to the loads that go
/// through it. Here it leads to a copy of the memory, a view: by its address, a load tells its
/// policy.

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "common/cpu_device/runtime/memory.hpp"
#include "common/cpu_device/scheduler/access.hpp"

namespace rmsnorm::cpu_device {

/// "", "evict_last", "evict_first".
const char* to_string(CachePolicy policy);

/// The views of one launch.
class Views {
 public:
  /// Of this memory.
  explicit Views(const Memory& memory) : memory_(memory) {}

  void begin_launch() { views_.clear(); }  ///< forgets them

  /// The pointer for loads with this policy, or the same one if it leads to no global memory. A
  /// view stays as it was when it was made: the kernel must not write what it reads through it.
  const void* view(const void* address, CachePolicy policy);

  /// Where an address leads to, and by which policy.
  std::pair<const void*, CachePolicy> resolve(const void* address) const;

 private:
  struct alignas(256) Line {  // as cudaMalloc aligns
    char bytes[256];
  };
  struct View {
    const char* of;  ///< the first byte of what one cudaMalloc gave
    std::size_t bytes;
    CachePolicy policy;
    std::unique_ptr<Line[]> copy;

    const char* data() const { return copy[0].bytes; }
  };
  const Memory& memory_;
  std::vector<View> views_;
};

}  // namespace rmsnorm::cpu_device
