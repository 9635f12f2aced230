#pragma once
/// \file
/// Whoever wants to know what runs. The device reports here; a device that nobody observes just
/// runs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/scheduler/arrival.hpp"
#include "common/cpu_device/scheduler/mistake.hpp"
#include "common/cpu_device/scheduler/place.hpp"

namespace rmsnorm::cpu_device {

/// A number of each lane of a warp.
using Lanes = std::array<std::uint32_t, 32>;

/// What the lanes of a warp meet for.
enum class Collective {
  sync,      ///< __syncwarp: to wait for each other
  shuffle,   ///< to read a value of another lane
  ballot,    ///< to know whose value is not 0
  exchange,  ///< to know all values
};

/// Is told what happens. Each function does nothing unless it is overridden.
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
  virtual void block_begins() {}             ///< the next block of the launch
  virtual void block_ends() {}               ///< all its threads have returned
  virtual void set_aside(int /*block*/) {}   ///< the running block waits, as number `block`
  virtual void go_on_with(int /*block*/) {}  ///< it runs again
  virtual void thread_begins() {}  ///< from now on, the running thread is in the kernel's own code

  // What the running thread does.

  virtual void access(const Access&) {}  ///< it loads or stores
  /// It sends a number to the shared memory of a block of its cluster: the store is still to come.
  virtual void sends(const Access&, const SharedByte&) {}
  virtual void fence(Scope) {}  ///< it calls one
  /// It lets those know what it did who take() it from the same place later.
  virtual void hand_on(const void* /*place*/) {}
  virtual void take(const void* /*place*/) {}   ///< what others handed on there
  virtual void kernel_before_ended() {}         ///< it has waited for that
  virtual void triggered(Place) {}              ///< it lets the next kernel begin
  virtual void arrives(bool /*is_ordered*/) {}  ///< at a cluster's barrier

  // What threads do together.

  virtual void barrier_passed(Place, int /*threads*/) {}      ///< by so many threads of the block
  virtual void barrier_of_cluster(Place, int /*threads*/) {}  ///< likewise
  virtual void all_met() {}     ///< the block's threads, at a barrier other than __syncthreads
  virtual void all_paused() {}  ///< every thread of the block has given way
  virtual void hand_on_arrivals(const void* /*place*/) {}  ///< all of the block have arrived
  /// The lanes of a warp, one bit each, have met there.
  virtual void lanes_met(Collective, int /*warp*/, std::uint32_t /*lanes*/, Place) {}
  /// A shuffle brings each of these lanes the value of its source.
  virtual void shuffled(
      Place, int /*warp*/, std::uint32_t /*lanes*/, const Lanes& /*values*/,
      const Lanes& /*sources*/) {}

  // Memory.

  virtual void add_padding(std::size_t /*offset*/) {}  ///< of a variable in shared memory
  virtual void forget(const void* /*data*/, std::size_t /*bytes*/) {}     ///< what was done to it
  virtual void allocated(const void* /*data*/, std::size_t /*bytes*/) {}  ///< by cudaMalloc
  virtual void freed(const void* /*data*/) {}                             ///< by cudaFree
  virtual void filled(const void* /*data*/, std::size_t /*bytes*/) {}     ///< by a copy or a memset

  // Mistakes.

  /// A mistake of a thread of the running block, counted through the block.
  virtual void mistake(Mistake, const Where&, int /*thread*/, const std::vector<Word>&) {}
  /// The running thread has come to a barrier of its block, or with `is_named` of its warp, by
  /// other addresses than thread `other`: which need not be another way in the source.
  virtual void arrived_by_another_way(
      const Arrival& /*own*/, const Arrival& /*of_other*/, int /*other*/, bool /*is_named*/) {}
  /// A mistake of the host's code, whose calls are on the stack.
  virtual void mistake_of_host(
      Mistake, const std::vector<const void*>& /*callers*/, const std::vector<Word>&) {}
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

/// While one of these lives, the device's own work is not taken for the kernel's.
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
