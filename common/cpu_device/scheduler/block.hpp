#pragma once
/// \file
/// A block: up to 1024 threads that can wait for each other.
///
/// Each thread is a fiber, and one OS thread runs them all, one after the other: each until it has
/// to wait, at a barrier or in a shuffle, or until it returns. Then the next one that need not wait
/// gets its turn. When all have returned, the next block (grid.hpp) begins with the same fibers.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cpu_device/scheduler/arrival.hpp"
#include "common/cpu_device/scheduler/fiber.hpp"
#include "common/cpu_device/scheduler/observer.hpp"
#include "common/cpu_device/scheduler/place.hpp"

namespace rmsnorm::cpu_device {

inline constexpr int kWarpThreads = 32;                       ///< threads of a warp
inline constexpr int kMaxThreads = 1024;                      ///< threads of a block, at most
inline constexpr int kMaxWarps = kMaxThreads / kWarpThreads;  ///< warps of a block, at most

/// How far a block has come.
enum class Progress {
  ended,    ///< all its threads have returned
  waits,    ///< for another block, and wants to go on later
  stopped,  ///< a mistake has made the rest of the grid impossible
};

class GridRunner;
class SharedMemory;

/// Runs a block, and then another.
class BlockRunner {
 public:
  explicit BlockRunner(GridRunner& grid);  ///< of this grid's blocks; takes memory for the threads

  /// From now on, the blocks are those of this grid, and each thread runs `body`.
  void begin_grid(dim3 grid, dim3 block, const std::function<void()>& body);
  Progress begin_block(uint3 index);  ///< runs a block
  Progress go_on();                   ///< runs it on, after Progress::waits
  void forget();                      ///< its threads will not go on, wherever they are

  // What a thread calls. The running thread is meant.

  /// __syncthreads: returns when every thread of the block has called it. Gives the number of
  /// threads that called it with `true`.
  int barrier(Place place, bool predicate = false);

  /// Returns when every lane in `mask` that has not returned has called it. For a shuffle, gives
  /// the value of lane `source`; for a ballot, the lanes whose value is not 0; for an exchange, the
  /// lanes that have come, and all their values.
  std::uint32_t meet(
      Collective kind, std::uint32_t mask, std::uint32_t value, int source, Place place,
      std::array<std::uint32_t, kWarpThreads>* all = nullptr);

  /// Returns when no other thread of the block can go on. Gives the lanes of its warp that wait
  /// here, too, and have come the same way since they last met: others need not be with them.
  std::uint32_t gather(Place place);

  /// Reports a mistake of the running thread.
  [[gnu::cold]] void report(Mistake what, const Where& where, const std::vector<Word>& words);
  /// The same of another one of the block.
  [[gnu::cold]] void report(
      Mistake what, const Where& where, const std::vector<Word>& words, int thread);

  /// The running warp uses shared memory that is a warp's own up to the next barrier: reports it
  /// if another warp has used it since the last one.
  void use_warp_storage(const void* storage, Place place);

  /// Lets the other threads run first.
  void pause();

  /// The running thread looks at a flag. If it does nothing else, it lets the others run first,
  /// also those of other blocks.
  void look(const void* flag);
  void wait_for_blocks();  ///< the same, at once
  /// The running thread is about to change memory atomically: others may have their turn first.
  void touch_atomically(const Access& access);
  void give_way();  ///< another block runs first, if there is one

  /// Gives up the whole grid, behind a mistake with which a GPU would hang or fail. Nothing is
  /// destroyed that the running thread has: its callers may own no memory.
  [[noreturn]] void stop();

  std::uint64_t block_number() const { return block_number_; }  ///< counts all blocks ever run
  int current() const { return current_; }  ///< the running thread, counted through the block
  /// Its place in its warp.
  int lane() const { return current_ & (kWarpThreads - 1); }
  /// Its warp in the block.
  int warp() const { return static_cast<int>(static_cast<unsigned>(current_) / kWarpThreads); }
  int threads() const { return threads_in_block_; }                ///< of the block
  int live() const { return live_; }                               ///< that have not returned
  uint3 index_of(int thread) const { return all_[thread].index; }  ///< threadIdx
  uint3 block_index() const { return block_; }                     ///< blockIdx
  const void* stack_end() const { return all_[current_].fiber.stack_end(); }  ///< of its stack
  const Stacks& stacks() const { return *stacks_; }                           ///< of the threads

  GridRunner& grid() const { return grid_; }        ///< that runs it
  SharedMemory& shared() const { return shared_; }  ///< of the running block
  Observer& observer() const;                       ///< who wants to know what it does

 private:
  struct alignas(64) Thread {
    Fiber fiber;
    uint3 index{};
    bool has_begun = false;
    Place place;  ///< where it waits
    Collective kind = Collective::sync;
    std::uint32_t mask = 0;
    std::uint32_t value = 0;
    int source = 0;
    std::array<std::uint32_t, kWarpThreads>* all = nullptr;
  };

  /// What the lanes of a warp do, one bit for each. Each lane that exists is in one of the others.
  struct Warp {
    std::uint32_t exists = 0;
    std::uint32_t ready = 0;
    std::uint32_t at_barrier = 0;
    std::uint32_t meeting = 0;
    std::uint32_t gathering = 0;
    std::uint32_t paused = 0;
    std::uint32_t returned = 0;
  };

  /// Who has used a warp's storage since the last barrier.
  struct StorageUse {
    const void* storage;
    int warp;
    Place place;
  };

  static void fiber_main();
  void run_thread();
  void wait();
  void switch_to(int next);
  int next_ready() const;
  int last_ready() const;
  bool resume_paused();
  bool resume_gathering();
  void release_barrier();
  bool try_to_meet(int warp, std::uint32_t mask);

  [[gnu::cold]] void report_if_warp_is_parted();
  [[gnu::cold]] void report_other_meeting(int warp, int lane, int first_lane);
  [[gnu::cold]] void report_deadlock();
  void keep_way() { ways_[static_cast<std::size_t>(current_)] = way; }
  std::uint64_t& way_of(int warp, int lane) {
    return ways_[static_cast<std::size_t>(warp * kWarpThreads + lane)];
  }
  Thread& thread_of(int warp, int lane) { return all_[warp * kWarpThreads + lane]; }

  GridRunner& grid_;
  SharedMemory& shared_;
  std::unique_ptr<Thread[]> all_;
  std::array<std::uint64_t, kMaxThreads> ways_{};  ///< of all but the running thread
  std::array<Warp, kMaxWarps> warps_;
  std::vector<StorageUse> storage_uses_;
  std::unique_ptr<Stacks> stacks_;
  Fiber main_;
  const std::function<void()>* body_ = nullptr;
  uint3 block_{};
  int threads_in_block_ = 0;
  int current_ = 0;
  int live_ = 0;        ///< threads that have not returned
  int at_barrier_ = 0;  ///< of them, those that wait at the barrier
  int agreeing_ = 0;    ///< of them, those that brought `true`
  int agreed_ = 0;      ///< the same, of the last barrier that was passed
  int first_at_barrier_ = 0;
  const void* flag_ = nullptr;  ///< that `looker_` has looked at last, so many times
  int looker_ = 0;
  int looks_ = 0;
  std::uint64_t block_number_ = 0;
  bool is_reversed_ = false;  ///< whether the last thread that is ready has its turn first
  bool is_looking_ = false;   ///< since a thread waits for other blocks, nobody was ready
  Progress progress_ = Progress::ended;
  Arrival barrier_;  ///< where the first thread at the barrier waits
};

/// What is known of one block alone, while blocks take turns: a T for each that runs, which begins
/// anew with the runner's next block.
template <class T>
class PerBlock {
 public:
  /// That of the block that this runner runs.
  T& of(const BlockRunner& runner) {
    auto& [number, value] = all_[&runner];
    if (number != runner.block_number()) {
      number = runner.block_number();
      value = {};
    }
    return value;
  }

 private:
  std::map<const BlockRunner*, std::pair<std::uint64_t, T>> all_;
};

/// The one that runs now or, between two grids, has run last; null before the device is there.
inline BlockRunner* running = nullptr;

/// Whether an address is in one of the variables threadIdx, blockIdx, blockDim and gridDim.
bool is_built_in(const void* address);

/// From now on, the threads of all kernels pass the barrier of a block or cluster at this place as
/// if it were not there: its race shows. `file` is relative to the project, and outlives the calls.
void leave_out_barrier(std::string_view file, int line);
bool is_left_out(Place place);  ///< whether it is the one at this place

}  // namespace rmsnorm::cpu_device
