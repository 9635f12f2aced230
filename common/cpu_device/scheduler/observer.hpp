#pragma once
/// \file
/// Observer of the device: hooks that the scheduler and the runtime call. A device that nobody
/// observes just runs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/scheduler/arrival.hpp"
#include "common/cpu_device/scheduler/mistakes.hpp"
#include "common/cpu_device/scheduler/source_location.hpp"

namespace rmsnorm::cpu_device {

/// One number for each lane of a warp.
using Lanes = std::array<std::uint32_t, 32>;

/// Kinds of warp collectives.
enum class Collective {
  sync,      ///< __syncwarp
  shuffle,   ///< __shfl_*_sync: a value of another lane
  ballot,    ///< votes: whose value is not 0
  exchange,  ///< matches and reductions: all values
};

/// Hooks. Each does nothing unless it is overridden.
class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;             ///< the device refers to it
  Observer& operator=(const Observer&) = delete;  ///< likewise

  // A launch and its blocks.

  /// The kernel's code, the memory in which the launch keeps its arguments, and whether it may
  /// begin before the kernel before it has ended.
  virtual void launch_begins(
      const void* /*kernel*/, const void* /*arguments*/, std::size_t /*argument_bytes*/,
      bool /*may_overlap*/) {}
  virtual void block_begins() {}                  ///< the next block of the launch
  virtual void block_ends() {}                    ///< all its threads have returned
  virtual void block_suspended(int /*block*/) {}  ///< the running one, by its number
  virtual void block_resumed(int /*block*/) {}    ///< likewise
  virtual void thread_begins() {}  ///< from now on, the running thread is in the kernel's own code

  // What the running thread does.

  virtual void access(const Access&) {}  ///< it loads or stores
  /// st.async to the shared memory of a block of its cluster: the store is still to come.
  virtual void remote_store_issued(const Access&, const SharedByte&) {}
  virtual void fence(Scope, bool /*is_sc*/) {
  }  ///< it calls one; those that are sc are in one order
  /// Releases what it did to those who acquire() the same flag later.
  virtual void release(const void* /*flag*/, Scope) {}
  virtual void acquire(const void* /*flag*/, Scope) {}         ///< what others released there
  virtual void grid_dependency_synced() {}                     ///< cudaGridDependencySynchronize()
  virtual void launch_completion_triggered(SourceLocation) {}  ///< for the next kernel
  virtual void cluster_arrived(bool /*is_ordered*/) {}         ///< at a cluster's barrier

  virtual void launch_ended() {}  ///< the host's code goes on

  // What threads do together.

  /// A barrier, passed by so many threads of the block.
  virtual void barrier_passed(SourceLocation, int /*threads*/) {}
  virtual void cluster_barrier_passed(SourceLocation, int /*threads*/) {}  ///< likewise
  virtual void block_synced() {}  ///< all threads, at a barrier other than __syncthreads
  virtual void all_yielded() {}   ///< every thread of the block has yielded
  virtual void release_arrivals(const void* /*flag*/) {}  ///< all threads of the block have arrived
  /// A warp collective is complete; lane mask.
  virtual void collective_done(Collective, int /*warp*/, std::uint32_t /*lanes*/, SourceLocation) {}
  /// A shuffle brings each of these lanes the value of its source.
  virtual void shuffled(
      SourceLocation, int /*warp*/, std::uint32_t /*lanes*/, const Lanes& /*values*/,
      const Lanes& /*sources*/) {}

  // Memory.

  virtual void add_padding(std::size_t /*offset*/) {}  ///< of a variable in shared memory
  virtual void reset(const void* /*data*/, std::size_t /*bytes*/) {}      ///< clears its shadow
  virtual void allocated(const void* /*data*/, std::size_t /*bytes*/) {}  ///< by cudaMalloc
  virtual void freed(const void* /*data*/) {}                             ///< by cudaFree
  virtual void filled(const void* /*data*/, std::size_t /*bytes*/) {}     ///< by a copy or a memset
  /// A copy lies on a stream that has still to read, or to write, this memory of the host.
  virtual void copy_queued(const void* /*host*/, std::size_t /*bytes*/, bool /*writes*/) {}
  virtual void copy_made(const void* /*host*/) {}  ///< it has

  // Mistakes.

  /// A mistake of a thread of the running block, counted through the block.
  virtual void mistake(
      const Mistake&, const Where&, int /*thread*/, const std::vector<FormatArg>&) {}
  /// The running thread has arrived at a barrier of its block, or with `is_named` of its warp, by
  /// another call stack than thread `other`; in the source, it may be the same one.
  virtual void barrier_mismatch(
      const Arrival& /*own*/, const Arrival& /*of_other*/, int /*other*/, bool /*is_named*/) {}
  /// A mistake of the host's code, whose calls are on the stack.
  virtual void mistake_of_host(
      const Mistake&, const std::vector<const void*>& /*callers*/, const std::vector<FormatArg>&) {}
  /// A crash by a signal at an address, which ends the program: gives the sentence about it. The
  /// calls are on the stack; without them, the sentence does not look for the place.
  virtual std::string crash(
      int /*signal*/, const void* /*address*/, const std::vector<const void*>& /*callers*/,
      bool /*is_in_kernel*/) {
    return "";
  }
};

/// Whether the running thread is in a kernel's own code, and that kernel is watched. The compiler's
/// calls look here first: most of the time, there is nothing more to do.
inline bool in_watched_kernel = false;

/// Guard: while one of these lives, accesses are the device's own, and not watched.
class NotWatching {
 public:
  /// Stops watching.
  NotWatching() : was_in_kernel_(in_watched_kernel) { in_watched_kernel = false; }
  /// Watches again if it was watching before.
  ~NotWatching() { in_watched_kernel = was_in_kernel_; }
  NotWatching(const NotWatching&) = delete;             ///< it ends with its scope
  NotWatching& operator=(const NotWatching&) = delete;  ///< likewise

 private:
  bool was_in_kernel_;
};

}  // namespace rmsnorm::cpu_device
