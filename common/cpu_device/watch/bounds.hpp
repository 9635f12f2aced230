#pragma once
/// \file
/// Where a kernel may load and store.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/runtime/runtime.hpp"
#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/scheduler/mistakes.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"

namespace rmsnorm::cpu_device {

/// The first addresses, of which Linux gives nobody one: those of a null pointer, with an index.
inline constexpr std::uintptr_t kNullBytes = 1 << 16;

/// Whether an address is that of one of these bytes.
bool is_in(const void* address, const void* begin, std::size_t bytes);

/// "y[12]", of a tensor's or workspace's byte at an address.
std::string element_text(const KnownMemory& memory, std::uintptr_t address);

/// Reports an access that is out of bounds, or at an address that is no multiple of its size, and
/// ends the grid: on a GPU, the kernel could not go on either.
class Bounds {
 public:
  /// Of the memory of this runtime.
  explicit Bounds(Runtime& runtime) : runtime_(runtime) {}

  /// In global memory a kernel may touch these tensors, and allocations of its own, but not what
  /// lies around a tensor in its allocation.
  void start(std::vector<KnownMemory> tensors);
  /// What cudaMalloc has given since then, and what cudaFree has taken back.
  void allocated(const void* data, std::size_t bytes);
  void freed(const void* data);  ///< the latter

  /// The tensors, and the workspaces that are known so far.
  const std::vector<KnownMemory>& memory() const { return tensors_; }

  bool has_ranks() const { return has_ranks_; }  ///< whether some memory is of one of several ranks
  /// The running block's rank: 0 where there are none.
  int own_rank() const;

  /// The shared variable that the running thread touches. Comes back only if it may.
  const SharedPiece& shared(const Access& access) const;

  /// What it touches in global memory: a tensor, or memory of the kernel's own, "workspace". Comes
  /// back only if it may.
  KnownMemory& global(const Access& access);

  /// The name of the tensor with this address, or "memory".
  std::string name_of(const void* address) const;

 private:
  KnownMemory* find(const void* address);
  std::string place_in_global(std::uintptr_t at, int bytes) const;
  void report(
      cudaError_t error, const Mistake& what, const Access& access,
      std::vector<FormatArg> args) const;

  Runtime& runtime_;
  std::vector<KnownMemory> tensors_;  // and workspaces
  bool names_lines_ = false;          // what is allocated is called after the line
  bool has_ranks_ = false;
};

}  // namespace rmsnorm::cpu_device
