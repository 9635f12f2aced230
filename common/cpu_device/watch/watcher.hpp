#pragma once
/// \file
/// The observer that watches kernels: every load and store, from the compiler's hooks (hooks.cpp),
/// goes to the race detector, the bounds check and the counters.

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
#include "common/cpu_device/watch/old_values.hpp"
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

  Hazards& hazards() { return hazards_; }  ///< the mistakes that were seen
  /// What is correct only where a GPU orders more than CUDA's memory model promises.
  Hazards& notes() { return notes_; }
  /// Loads that got an old value, as CUDA's memory model allows.
  Hazards& old_loads() { return old_loads_; }
  /// Watches the host's code, or no longer.
  void watch_host(bool watched) {
    watches_host_ = watched;
    in_watched_kernel = in_host_code_ = watched && is_on_;
  }

  // What the scheduler and the runtime report.

  void launch_begins(
      const void* kernel, const void* arguments, std::size_t argument_bytes,
      bool may_overlap) override;
  void block_begins() override;
  void block_ends() override;
  void block_suspended(int block) override { swap_block(suspended_[block]); }
  void block_resumed(int block) override { swap_block(suspended_[block]); }
  void thread_begins() override {
    in_watched_kernel = is_on_;
    in_host_code_ = false;
  }
  void access(const Access& access) override { this->access(Access(access)); }
  void remote_store_issued(const Access& access, const SharedByte& byte) override;
  void fence(Scope scope, bool is_sc) override;
  void release(const void* flag, Scope scope) override;
  void acquire(const void* flag, Scope scope) override;
  void grid_dependency_synced() override;
  void launch_completion_triggered(SourceLocation location) override;
  void cluster_arrived(bool is_ordered) override;
  void barrier_passed(SourceLocation location, int threads) override;
  void cluster_barrier_passed(SourceLocation location, int threads) override;
  void block_synced() override;
  void all_yielded() override {
    if (is_on_) counter_.all_yielded();
  }
  void release_arrivals(const void* flag) override;
  void collective_done(
      Collective kind, int warp, std::uint32_t lanes, SourceLocation location) override;
  void shuffled(
      SourceLocation location, int warp, std::uint32_t lanes, const Lanes& values,
      const Lanes& sources) override;
  void add_padding(std::size_t offset) override {
    if (is_on_) races_.add_padding(offset);
  }
  void reset(const void* data, std::size_t bytes) override {
    if (is_on_) races_.reset(data, bytes);
  }
  void allocated(const void* data, std::size_t bytes) override {
    if (is_on_) bounds_.allocated(data, bytes);
  }
  void freed(const void* data) override;
  void filled(const void* data, std::size_t bytes) override;
  void copy_queued(const void* host, std::size_t bytes, bool writes) override {
    if (watches_host_) queued_copies_.push_back({host, bytes, writes});
  }
  void copy_made(const void* host) override;
  void launch_ended() override { watch_host(watches_host_); }
  void mistake(
      const Mistake& what, const Where& where, int thread,
      const std::vector<FormatArg>& args) override;
  void barrier_mismatch(
      const Arrival& own, const Arrival& of_other, int other, bool is_named) override;
  void mistake_of_host(
      const Mistake& what, const std::vector<const void*>& backtrace,
      const std::vector<FormatArg>& args) override;
  std::string crash(
      int signal, const void* address, const std::vector<const void*>& backtrace,
      bool is_in_kernel) override;

  // What the compiler's calls report.

  /// A load or store of the running thread.
  void access(Access&& access);
  /// The atomic operation of the running thread is about to change something.
  void atomic_changes(const Access& access);
  /// The running thread is about to load bytes that the launch may not change (__ldg).
  void read_only(const void* pc, const void* data, int bytes);

  Views& views() { return views_; }  ///< of the launch

 private:
  /// Programmatic launch: which threads of a block have waited for the kernel before, and let the
  /// next one begin.
  struct Overlap {
    std::bitset<kMaxThreads> has_waited;     ///< one bit a thread
    std::bitset<kMaxThreads> has_triggered;  ///< likewise
    SourceLocation trigger;                  ///< where the first of them did
    bool is_trigger_late = false;            ///< a thread has written to global memory without it
  };
  /// State of one block.
  struct BlockState {
    Counter::BlockState counter;  ///< what is not counted yet
    Order::BlockState order;      ///< of its threads' steps
    Races::BlockState races;      ///< what was done to its shared memory
    Overlap overlap;              ///< with the kernels before and after
  };

  /// Race: two accesses to an element that nothing orders.
  struct Race {
    Access access;
    int thread;
    PastAccess other;  ///< the earlier one
    bool is_shared;
    std::string element;
    Order::Gap gap = {};  ///< what a flag between them lacks
  };
  /// Pending store: a race if it changes what another has stored.
  struct PendingStore {
    Race race;
    std::array<char, 16> before;  ///< what was there
  };

  void shared_access(const Access& access);
  void remote_access(const Access& access, const SharedByte& byte);
  Finding access_of_cluster(
      const SharedPiece& piece, const SharedByte& byte, const Access& access,
      const PastAccess& past);
  void global_access(const Access& access);
  Space space_of(const Access& access, const KnownMemory& memory) const;
  std::uintptr_t flag_at(const void* address) const;
  PastAccess past_of(const Access& access);
  void strong_access(const Access& access);
  void release(const Access& access);
  bool sees_old_values() const { return grid_.order().old_values; }  ///< whether loads do
  void found_race(
      const Access& access, const PastAccess& other, std::string element, bool is_shared = false);
  void report(
      const Finding& finding, const Access& access, const std::string& element, bool is_shared);
  void report(const Race& race);
  void swap_block(BlockState& other);
  Hazard hazard_of(
      const Mistake& what, const SourceLine& line, int thread,
      const std::vector<FormatArg>& args) const;
  Hazard hazard_of_host(
      const Mistake& what, const SourceLine& line, const std::vector<FormatArg>& args) const;
  void settle();
  void variable_access(const Access& access);
  void device_variable_access(const Access& access);
  void host_access(const Access& access);

  GridRunner& grid_;
  Runtime& runtime_;
  bool is_on_ = false;
  bool in_host_code_ = false;  // whether what is watched is the host's, not a kernel's
  bool watches_host_ = false;
  bool polls_ = false;              // a strong load was seen
  bool has_race_in_block_ = false;  // that began last, and that a barrier may prevent
  /// A copy on a stream, and what it does with the host's memory.
  struct QueuedCopy {
    const void* host;
    std::size_t bytes;
    bool writes;
  };
  std::vector<QueuedCopy> queued_copies_;
  Hazards hazards_;
  Hazards notes_;
  Hazards old_loads_;
  std::map<int, BlockState> suspended_;           // blocks that wait
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
  OldValues old_values_;
  std::optional<PendingStore> pending_store_;  ///< the store has not happened yet
  Counter counter_;
  std::array<std::uint32_t, kMaxThreads / kWarpThreads>
      collectives_{};  ///< by warp: epoch of the last
  Recorder recorder_;
};

}  // namespace rmsnorm::cpu_device
