#pragma once
/// \file
/// Watches every load and store of a kernel, at each of which the compiler calls us (hooks.cpp):
/// hands it on to those who find what is wrong with it and count what it costs.

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/watching.hpp"
#include "common/cpu_device/access.hpp"
#include "common/cpu_device/block.hpp"
#include "common/cpu_device/bounds.hpp"
#include "common/cpu_device/cluster.hpp"
#include "common/cpu_device/counter.hpp"
#include "common/cpu_device/order.hpp"
#include "common/cpu_device/races.hpp"
#include "common/cpu_device/recorder.hpp"
#include "common/cpu_device/views.hpp"

namespace rmsnorm::cpu_device {

/// Whether the running thread is in a kernel's own code, and that kernel is watched. The compiler's
/// calls look here first: most of the time, there is nothing more to do.
inline bool in_watched_kernel = false;
/// Whether launches are watched now.
inline bool is_watching = false;
/// Whether what is watched is the host's code, not a kernel's.
inline bool in_host_code = false;

/// Notes every access of the kernels that are watched: counts requests, looks for mistakes.
class Watcher {
 public:
  /// Watches the launches from now on. For the tensors, see Bounds.
  void start(std::vector<KnownMemory> tensors, bool records_steps);
  /// Ends it, and gives what was counted and recorded.
  LaunchCounts stop();

  /// Ends it, and forgets.
  static void ignore() { is_watching = false; }

  /// Which threads of a block have waited for the kernel before, and let the next one begin.
  struct Overlap {
    std::bitset<kMaxThreads> has_waited;     ///< one bit a thread
    std::bitset<kMaxThreads> has_triggered;  ///< likewise
    Place trigger;                           ///< where the first of them did
    bool is_trigger_late = false;            ///< a thread has written to global memory without it
  };
  /// What is known of one block.
  struct OfBlock {
    Counter::OfBlock counter;  ///< what is not counted yet
    Order::OfBlock order;      ///< of its threads' steps
    Shadow::OfBlock races;     ///< what was done to its shared memory
    Overlap overlap;           ///< with the kernels before and after
  };
  /// Sets the running block aside, and goes on with another.
  void swap_block(OfBlock& other);

  // What the runtime reports.

  /// The kernel's code, the memory in which the launch keeps its arguments, and whether it may
  /// begin before the kernel before it has ended.
  void launch_begins(
      const void* kernel, const void* arguments, std::size_t argument_bytes, bool may_overlap);
  std::string kernel() const;                     ///< its name
  void block_begins();                            ///< the next block of the launch
  void block_ends();                              ///< all its threads have returned
  void barrier_passed(Place place, int threads);  ///< by so many threads
  void all_met();                                 ///< at a barrier other than __syncthreads
  void arrives(bool is_ordered);                  ///< the running thread, at a cluster's barrier
  void hand_on_arrivals(const void* place);       ///< all threads of the block have arrived
  void barrier_of_cluster(Place place, int threads);  ///< they have all waited there
  void forget(const void* data, std::size_t bytes);   ///< what was done to it
  /// The lanes of a warp, one bit each, have met there.
  void lanes_met(Meeting kind, int warp, std::uint32_t lanes, Place place);
  /// Notes a shuffle, lane by lane, if it is on, before they have met.
  Recorder& recorder() { return recorder_; }
  void add_padding(std::size_t offset);  ///< in shared memory: see Races
  void all_paused();                     ///< every thread of the block has given way
  void kernel_before_ended();            ///< the running thread has waited for that
  void triggered(Place place);           ///< the running thread lets the next kernel begin
  void fence(Scope scope);               ///< of the running thread
  /// The running thread lets those know what it did who take() it from the same place later.
  void hand_on(const void* place);
  void take(const void* place);                         ///< what others handed on there
  void allocated(const void* data, std::size_t bytes);  ///< by cudaMalloc
  void freed(const void* data);                         ///< by cudaFree
  void filled(const void* data, std::size_t bytes);     ///< by a copy, or with a value

  /// The running thread is about to load bytes that the launch may not change (__ldg).
  void read_only(const void* pc, const void* data, int bytes);

  // Between these two, the running thread is in the kernel's own code.

  static void enter_kernel() {  ///< the first
    in_watched_kernel = is_watching;
    in_host_code = false;
  }
  static void leave_kernel() { in_watched_kernel = false; }  ///< the second

  /// Watches the host's code, or no longer.
  static void watch_host(bool watched) {
    in_watched_kernel = in_host_code = watched && is_watching;
  }

  /// A load or store of the running thread.
  void access(Access&& access);
  /// It sends a number to the shared memory of a block of its cluster: the store is still to come.
  void sends(const Access& access, const SharedByte& byte);

  Views& views() { return views_; }  ///< of the launch

 private:
  /// Two accesses to an element that nothing orders.
  struct Race {
    Access access;
    int thread;
    Past other;  ///< the earlier one
    bool is_shared;
    std::string element;
  };
  /// A store that is a race if it changes what another has stored.
  struct SecondStore {
    Race race;
    std::array<char, 16> before;  ///< what was there
  };

  void shared_access(const Access& access);
  void remote_access(const Access& access, const SharedByte& byte);
  Finding access_of_cluster(
      const SharedPiece& piece, const SharedByte& byte, const Access& access, const Past& past);
  void global_access(const Access& access);
  std::uintptr_t flag_at(const void* address) const;
  Past past_of(const Access& access);
  void found_race(
      const Access& access, const Past& other, std::string element, bool is_shared = false);
  static void report(const Race& race);
  void settle();
  void variable_access(const Access& access);
  void device_variable_access(const Access& access);
  void host_access(const Access& access) const;

  std::map<const void*, std::string> variables_;  ///< of the host, by name; "" of nobody's
  const void* kernel_ = nullptr;
  const char* arguments_ = nullptr;
  std::size_t argument_bytes_ = 0;
  bool may_overlap_ = false;
  Overlap overlap_;  // of the running block
  Views views_;
  Bounds bounds_;
  Order order_;
  Races races_{order_};
  std::optional<SecondStore> second_store_;  ///< which has not happened yet
  Counter counter_;
  Recorder recorder_;
};

/// The device has one.
inline Watcher& watcher() {
  static Watcher watcher;
  return watcher;
}

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
