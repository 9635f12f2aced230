#pragma once
/// \file
/// A load or store of a kernel, and the words in which messages speak of it.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/watching.hpp"
#include "common/cpu_device/hazard.hpp"
#include "common/cpu_device/shadow.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/source_lines.hpp"
#include "common/cpu_device/views.hpp"

namespace rmsnorm::cpu_device {

inline constexpr unsigned kBulkBytes = 16;  ///< a bulk copy moves a multiple of these

/// What the running thread does with memory.
struct Access {
  const void* pc;               ///< where the compiler's call returns to: the place in the code
  const void* address;          ///< of the first byte
  int bytes;                    ///< how many
  Touch touch;                  ///< load, store or both
  bool is_volatile = false;     ///< whether its pointer is
  Scope scope = Scope::device;  ///< of an atomic operation
  CachePolicy policy = CachePolicy::normal;  ///< of the pointer that it goes through
  /// No request of a warp: a bulk copy, of any length, 16 bytes at a time (bulk_copy.hpp), or what
  /// is done to a barrier that counts.
  bool is_bulk = false;
};

/// "reads", "writes", "atomically changes".
const char* verb(Touch touch);

/// "thread 3 reads 4 bytes", of the running thread.
std::string who_text(const Access& access);

/// "FILE:LINE".
std::string place_text(const SourceLine& line);

/// "staged[12]", or the name alone for a variable that is no array. `offset` is the byte's in
/// shared memory.
std::string element_text(const SharedPiece& piece, std::size_t offset);
/// "y[12]", of a tensor's or workspace's byte at an address.
std::string element_text(const KnownMemory& memory, std::uintptr_t address);

/// The line of a place.
SourceLine line_of(Place place);

/// A mistake of a thread of the running block: what happened, and an advice.
Hazard hazard_at(const SourceLine& line, int thread, std::string what, std::string advice);

/// The same of the running thread, at a place in the code.
Hazard hazard_at(const void* pc, std::string what, std::string advice);

}  // namespace rmsnorm::cpu_device
