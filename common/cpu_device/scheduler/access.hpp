#pragma once
/// \file
/// A load or store of a kernel.

#include <cstddef>
#include <cstdint>

namespace rmsnorm::cpu_device {

inline constexpr unsigned kBulkBytes = 16;  ///< a bulk copy moves a multiple of these

/// What a thread does with memory.
enum class AccessKind : std::uint8_t {
  load,    ///< reads
  store,   ///< writes
  atomic,  ///< reads and writes in one step
};

/// "reads", "writes", "atomically changes".
inline const char* verb(AccessKind kind) {
  return kind == AccessKind::load    ? "reads"
         : kind == AccessKind::store ? "writes"
                                     : "atomically changes";
}

/// For which threads a fence or an atomic operation is one; each contains those before it.
enum class Scope : std::uint8_t {
  block,    ///< those of the block: __threadfence_block(), atomicAdd_block()
  cluster,  ///< those of the cluster: fence.acq_rel.cluster
  device,   ///< all: __threadfence(), atomicAdd()
  system,   ///< those of other GPUs, too, and the host: atomicAdd_system(), volatile
};
inline constexpr std::size_t kScopes = 4;  ///< so many

/// What an atomic operation, or an access to a flag, orders beside itself, and for which threads.
struct Strength {
  Scope scope = Scope::device;  ///< for which it is strong
  bool acquires = false;        ///< what comes later in its thread is behind it
  bool releases = false;        ///< what came earlier is before it
  bool is_volatile = false;     ///< through a volatile pointer: no atomic operation of the language
  std::uint8_t parts = 1;       ///< accesses in this instruction; 0 for all but its first
};

/// A hint that a load can carry, as PTX calls it: which lines of the L2 go first if it needs room.
enum class CachePolicy {
  normal,       ///< as all others
  evict_last,   ///< to stay while there are others to give up
  evict_first,  ///< to be given up before all others
};

/// What the running thread does with memory.
struct Access {
  const void* pc;       ///< where the compiler's call returns to: the place in the code
  const void* address;  ///< of the first byte
  int bytes;            ///< how many
  AccessKind kind;      ///< load, store or both
  /// Whether it may meet others of its kind: atomic, through a volatile pointer, or of PTX's
  /// strong forms.
  bool is_strong = false;
  Strength strength = {Scope::system};       ///< if it is
  CachePolicy policy = CachePolicy::normal;  ///< of the pointer that it goes through
  /// No request of a warp: a bulk copy, of any length, 16 bytes at a time (bulk_copy.hpp), or what
  /// is done to a barrier that counts.
  bool is_bulk = false;
};

/// A byte of a block's shared memory.
struct SharedByte {
  int rank = 0;            ///< of the block in its cluster
  std::size_t offset = 0;  ///< from the start of the device's shared memory
};

}  // namespace rmsnorm::cpu_device
