#pragma once
/// \file
/// Grids: blocks run one after the other. A block that waits for another, at a flag or at a barrier
/// of the grid, is suspended, and the others run.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/scheduler/block.hpp"
#include "common/cpu_device/scheduler/cluster.hpp"
#include "common/cpu_device/scheduler/observer.hpp"
#include "common/cpu_device/scheduler/sampler.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"

namespace rmsnorm::cpu_device {

inline constexpr int kMultiprocessors = 2;    ///< that the device seems to have, first
inline constexpr int kMaxBlocksOfSm = 32;     ///< that one holds, as of compute capability 9.0
inline constexpr int kMaxThreadsOfSm = 2048;  ///< likewise

/// Blocks of so many threads, 1 or more, that one holds.
constexpr int blocks_of_sm(int threads) {
  const int warps = (threads - 1) / kWarpThreads + 1;
  return std::min(kMaxBlocksOfSm, kMaxThreadsOfSm / (warps * kWarpThreads));
}

/// Runs grids.
class GridRunner {
 public:
  /// Of blocks that have this shared memory in turn. Takes memory for the threads of one.
  explicit GridRunner(SharedMemory& shared);

  SharedMemory& shared() { return shared_; }   ///< of the block that runs
  Sampler& sampler() { return sampler_; }      ///< chooses the blocks of a large grid
  Observer& observer() { return *observer_; }  ///< who wants to know what runs
  /// From now on, that is this one; at first, it is nobody.
  void observe(Observer& observer) { observer_ = &observer; }

  int multiprocessors() const { return multiprocessors_; }  ///< that the device seems to have
  void set_multiprocessors(int count) { multiprocessors_ = count; }  ///< they are so many now

  /// Runs `body` in every thread of every block, `cluster` of which are neighbours in x and a
  /// cluster. A grid that is cooperative may have a barrier of its own. False if a mistake made
  /// the rest impossible.
  bool run(
      dim3 grid, dim3 block, const std::function<void()>& body, int cluster = 1,
      bool is_cooperative = false);

  /// Changes the order of blocks, and of the threads of each. A GPU has none.
  void change_order(const RunOrder& order) { order_ = order; }
  const RunOrder& order() const { return order_; }  ///< now
  /// Of so many blocks or threads, the one that comes first in an order.
  static std::uint64_t first_of(std::uint64_t count, int order);

  /// A block's turn that has ended at an atomic operation.
  struct Turn {
    uint3 block;               ///< whose it was
    const void* pc = nullptr;  ///< where
    uint3 next;                ///< whose comes
  };
  /// Whether the running block's ends there.
  bool ends_turn(const void* pc);
  /// Whether it ends before this strong store: at about half of a grid's first 4096.
  bool ends_turn_at_store(const void* pc);
  std::uint64_t turns() const { return turns_; }                         ///< that could have ended
  const std::vector<Turn>& first_turns() const { return first_turns_; }  ///< that have

  /// Whether another block can go on while the running one waits.
  bool has_others() const { return !suspended_.empty() || can_begin(); }

  /// Asked where a block has so many threads that wait, and no others: whether nobody is left who
  /// might end that, since all blocks have done nothing but wait for long.
  bool wait_is_in_vain(int threads);
  /// Blocks that have not begun, and all blocks.
  std::pair<std::uint64_t, std::uint64_t> blocks_to_begin() const {
    return {blocks_ - next_, blocks_};
  }

  /// A barrier of all threads of the grid: returns when each has called it.
  void barrier(SourceLocation location);

  /// That of the running block, or null where the launch has none.
  Cluster* cluster() const { return current_ == nullptr ? nullptr : current_->cluster.get(); }
  int rank() const { return current_->rank; }  ///< of the running block in its cluster

  /// Ends the grid: it is to begin again, with clusters of so many blocks.
  void want_cluster(int blocks);
  /// How many that were; 0: it did not end for that.
  int take_wanted_cluster() { return std::exchange(wanted_cluster_, 0); }

 private:
  /// A block that has begun, and what belongs to it alone.
  struct Resident {
    Resident(GridRunner& grid_runner, int number_) : runner(grid_runner), number(number_) {}

    BlockRunner runner;
    int number;                      // the observer's name for it
    std::uint64_t grid = 0;          // of its last block
    std::unique_ptr<char[]> shared;  // where its shared memory waits, if it has no cluster
    std::size_t variables = 0;       // in it
    std::shared_ptr<Cluster> cluster;
    int rank = 0;
  };

  std::unique_ptr<Resident> new_resident();
  std::unique_ptr<Resident> next_resident(std::uint64_t number, int threads, int cluster);
  void block_suspended(Resident& resident);
  void block_resumed(Resident& resident);

  std::uint64_t nth_block(std::uint64_t n, int cluster) const;
  bool can_begin() const {
    return next_ < blocks_ && static_cast<int>(suspended_.size()) < most_resident_;
  }

  SharedMemory& shared_;
  Observer nobody_;
  Observer* observer_ = &nobody_;
  Sampler sampler_;
  int multiprocessors_ = kMultiprocessors;
  int residents_ = 0;
  std::vector<std::unique_ptr<Resident>> free_;
  std::deque<std::unique_ptr<Resident>> suspended_;  // queue: the first has waited longest
  const Resident* current_ = nullptr;
  std::vector<std::shared_ptr<Cluster>> clusters_;  // of which blocks have begun, or free ones
  int most_resident_ = 0;    // blocks that are on the device at the same time
  std::uint64_t grids_ = 0;  // that have begun
  std::uint64_t blocks_ = 0;
  std::uint64_t next_ = 0;     // the block that has not begun
  std::uint64_t arrived_ = 0;  // blocks, at the grid's barrier
  std::uint64_t rounds_ = 0;   // how often all have
  std::uint64_t changes_ = 0;  // when a block has last asked
  std::size_t waits_ = 0;      // in vain since then, of blocks
  std::size_t waiting_ = 0;    // and of threads
  bool is_cooperative_ = false;
  RunOrder order_;
  std::uint64_t turns_ = 0;        // that could have ended
  std::vector<Turn> first_turns_;  // that have
  bool is_turn_open_ = false;      // the last one's next block is not known yet
  std::uint32_t stores_ = 0;       // strong ones, of the running grid
  int wanted_cluster_ = 0;
};

}  // namespace rmsnorm::cpu_device
