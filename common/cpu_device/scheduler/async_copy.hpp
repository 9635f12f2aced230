#pragma once
/// \file
/// Copies from global to shared memory that go on while the thread does other things, as cp.async.
///
/// Here a copy is made when its thread waits for it, at the latest possible time: who reads before,
/// finds nothing.

#include <cstddef>
#include <cstdint>

#include "common/cpu_device/scheduler/source_location.hpp"

namespace rmsnorm::cpu_device {

/// Begins a copy of 16 bytes or less; what comes after the first `valid` bytes becomes 0.
[[gnu::noinline]] void begin_copy(void* to, const void* from, int bytes, int valid);
/// Commits the running thread's copies since the last call as a group, which may be empty.
void commit_copies();
/// Waits until at most so many of the running thread's groups are pending.
void wait_for_copies(int groups);
/// The number of its pending groups.
int copies_in_flight();
/// Where a thread of the running block has begun a copy to this address that is pending; or null.
const void* pending_copy(const void* address);

/// What thread `rank` of `threads` copies of so many bytes: parts of up to 16 bytes in turn.
[[gnu::always_inline]] inline void begin_copies(
    void* to, const void* from, std::size_t bytes, std::size_t rank = 0, std::size_t threads = 1) {
  const std::size_t all =
      reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | bytes | 16;
  const std::size_t part = all & -all;
  for (std::size_t i = rank * part; i < bytes; i += threads * part) {
    begin_copy(
        static_cast<char*>(to) + i, static_cast<const char*>(from) + i, static_cast<int>(part),
        static_cast<int>(part));
  }
}

/// A barrier at which threads can arrive first and wait later, 8 bytes of shared memory.
struct SplitBarrier {
  std::uint16_t expected;   ///< threads
  std::uint16_t arrived;    ///< of them, in this phase
  std::int32_t bytes : 24;  ///< that have yet to come in this phase (bulk_copy.hpp)
  std::uint32_t phase : 8;  ///< counts how often all have arrived
};

/// Lets it expect so many threads.
[[gnu::noinline]] void start_barrier(SplitBarrier& barrier, std::ptrdiff_t threads);
/// Arrives for so many threads, of which `dropped` never come again; gives what to wait for.
[[gnu::noinline]] std::uint32_t arrive(
    SplitBarrier& barrier, std::ptrdiff_t threads, std::ptrdiff_t dropped, SourceLocation location);
/// Reports a barrier that has no count yet, and gives up the grid.
void require_count(const SplitBarrier& barrier, SourceLocation location);
/// Reports that the running thread waits there for threads that never arrive, and gives up the
/// grid.
[[noreturn]] void report_no_arrival(const SplitBarrier& barrier, SourceLocation location);
/// Counts arrivals. `flag` stands for the barrier where it orders some threads of the block.
std::uint32_t count_arrivals(SplitBarrier& barrier, std::ptrdiff_t threads, const void* flag);
/// Begins the next phase if all threads, and all bytes, have come.
void end_phase_if_complete(SplitBarrier& barrier);
/// Whether the phase that arrive() gave is over.
bool has_passed(const SplitBarrier& barrier, std::uint32_t phase);
/// Waits until all have arrived. `flag` is that of their arrivals.
void wait_for_all(
    const SplitBarrier& barrier, std::uint32_t phase, const void* flag, SourceLocation location);
/// The barrier of a block that PTX gives a number, 0 to 15; 0 threads are all of the block.
void named_barrier(unsigned number, unsigned threads, SourceLocation location);
/// The same without a wait.
void arrive_at_named_barrier(unsigned number, unsigned threads, SourceLocation location);

}  // namespace rmsnorm::cpu_device
