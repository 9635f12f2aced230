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

#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/runtime/runtime.hpp"
#include "common/cpu_device/scheduler/block.hpp"
#include "common/cpu_device/scheduler/grid.hpp"
#include "common/cpu_device/scheduler/observer.hpp"
#include "common/cpu_device/watch/bounds.hpp"
#include "common/cpu_device/watch/counter.hpp"
#include "common/cpu_device/watch/hazard.hpp"
#include "common/cpu_device/watch/order.hpp"
#include "common/cpu_device/watch/races.hpp"
#include "common/cpu_device/watch/recorder.hpp"
#include "common/cpu_device/watch/views.hpp"

namespace rmsnorm::cpu_device {

/// Notes every access of the kernels that are watched: counts requests, looks for mistakes.
class Watcher : public Observer {
 public:
  /// Of these grids, and of this runtime's memory.
  Watcher(GridRunner& grid, Runtime& runtime)
      : grid_(grid), runtime_(runtime), views_(runtime.memory), bounds_(runtime) {}

  /// Watches the launches from now on. For the tensors, see Bounds.
  void start(std::vector<KnownMemory> tensors, bool records_steps);
  /// Ends it, and gives what was counted and recorded.
  LaunchCounts stop();

  std::string kernel() const;              ///< the name of the one that runs
  Hazards& hazards() { return hazards_; }  ///< the mistakes that were seen
  /// Watches the host's code, or no longer.
  void watch_host(bool watched) { in_watched_kernel = in_host_code_ = watched && is_on_; }

  // What the scheduler and the runtime report.

  void launch_begins(
      const void* kernel, const void* arguments, std::size_t argument_bytes,
      bool may_overlap) override;
  void block_begins() override;
  void block_ends() override;
  void set_aside(int block) override { swap_block(aside_[block]); }
  void go_on_with(int block) override { swap_block(aside_[block]); }
  void thread_begins() override {
    in_watched_kernel = is_on_;
    in_host_code_ = false;
  }
  void access(const Access& access) override { this->access(Access(access)); }
  void sends(const Access& access, const SharedByte& byte) override;
  void fence(Scope scope) override;
  void hand_on(const void* place) override;
  void take(const void* place) override;
  void kernel_before_ended() override;
  void triggered(Place place) override;
  void arrives(bool is_ordered) override;
  void barrier_passed(Place place, int threads) override;
  void barrier_of_cluster(Place place, int threads) override;
  void all_met() override;
  void all_paused() override;
  void hand_on_arrivals(const void* place) override;
  void lanes_met(Collective kind, int warp, std::uint32_t lanes, Place place) override;
  void shuffled(
      Place place, int warp, std::uint32_t lanes, const Lanes& values,
      const Lanes& sources) override;
  void add_padding(std::size_t offset) override;
  void forget(const void* data, std::size_t bytes) override;
  void allocated(const void* data, std::size_t bytes) override;
  void freed(const void* data) override;
  void filled(const void* data, std::size_t bytes) override;
  void mistake(
      Mistake what, const Where& where, int thread, const std::vector<Word>& words) override;
  void arrived_by_another_way(
      const Arrival& own, const Arrival& of_other, int other, bool is_named) override;
  void mistake_of_host(
      Mistake what, const std::vector<const void*>& callers,
      const std::vector<Word>& words) override;
  std::string crash(
      int signal, const void* address, const std::vector<const void*>& callers,
      bool is_in_kernel) override;

  // What the compiler's calls report.

  /// A load or store of the running thread.
  void access(Access&& access);
  /// The running thread is about to load bytes that the launch may not change (__ldg).
  void read_only(const void* pc, const void* data, int bytes);

  Views& views() { return views_; }  ///< of the launch

 private:
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
    Races::OfBlock races;      ///< what was done to its shared memory
    Overlap overlap;           ///< with the kernels before and after
  };

  /// Two accesses to an element that nothing orders.
  struct Race {
    Access access;
    int thread;
    PastAccess other;  ///< the earlier one
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
      const SharedPiece& piece, const SharedByte& byte, const Access& access,
      const PastAccess& past);
  void global_access(const Access& access);
  std::uintptr_t flag_at(const void* address) const;
  PastAccess past_of(const Access& access);
  void found_race(
      const Access& access, const PastAccess& other, std::string element, bool is_shared = false);
  void report(
      const Finding& finding, const Access& access, const std::string& element, bool is_shared);
  void report(const Race& race);
  void swap_block(OfBlock& other);
  Hazard hazard_of(
      Mistake what, const SourceLine& line, int thread, const std::vector<Word>& words) const;
  Hazard hazard_of_host(Mistake what, const SourceLine& line, const std::vector<Word>& words) const;
  void settle();
  void variable_access(const Access& access);
  void device_variable_access(const Access& access);
  void host_access(const Access& access);

  GridRunner& grid_;
  Runtime& runtime_;
  bool is_on_ = false;
  bool in_host_code_ = false;  // whether what is watched is the host's, not a kernel's
  Hazards hazards_;
  std::map<int, OfBlock> aside_;                  // blocks that wait
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

}  // namespace rmsnorm::cpu_device
