#pragma once
/// \file
/// Where a kernel may load and store.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/observation.hpp"
#include "common/cpu_device/access.hpp"

namespace rmsnorm::cpu_device {

/// Whether an address is that of one of these bytes.
bool is_in(const void* address, const void* begin, std::size_t bytes);

/// Reports an access that is out of bounds, or at an address that is no multiple of its size, and
/// ends the grid: on a GPU, the kernel could not go on either.
class Bounds {
 public:
  /// In global memory a kernel may touch these tensors, and allocations of its own, but not what
  /// lies around a tensor in its allocation.
  void start(std::vector<KnownMemory> tensors);

  /// The shared variable that the running thread touches. Comes back only if it may.
  const SharedPiece& shared(const Access& access) const;

  /// The name of what it touches in global memory: a tensor's, or "workspace". Comes back only if
  /// it may.
  const std::string& global(const Access& access) const;

 private:
  std::string place_in_global(std::uintptr_t at) const;

  std::vector<KnownMemory> tensors_;
};

}  // namespace rmsnorm::cpu_device
