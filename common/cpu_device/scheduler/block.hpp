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
#include "common/cpu_device/scheduler/source_location.hpp"

namespace rmsnorm::cpu_device {

inline constexpr int kWarpThreads = 32;                       ///< threads of a warp
inline constexpr int kMaxThreads = 1024;                      ///< threads of a block, at most
inline constexpr int kMaxWarps = kMaxThreads / kWarpThreads;  ///< warps of a block, at most

/// State of a block when its fiber switches back.
enum class Progress {
  ended,      ///< all its threads have returned
  suspended,  ///< it waits for another block, and is to be resumed
  stopped,    ///< a mistake has made the rest of the grid impossible
};

class GridRunner;
class SharedMemory;

/// Scheduler of one block's threads; runs one block after the other.
class BlockRunner {
 public:
  explicit BlockRunner(GridRunner& grid);  ///< of this grid's blocks; takes memory for the threads

  /// From now on, the blocks are those of this grid, and each thread runs `body`.
  void begin_grid(dim3 grid, dim3 block, const std::function<void()>& body);
  Progress begin_block(uint3 index);  ///< runs a block
  Progress resume();                  ///< runs it on, after Progress::suspended
  void reset();                       ///< its threads will not go on, wherever they are

  // What a thread calls. The running thread is meant.

  /// __syncthreads: returns when every thread of the block has called it. Gives the number of
  /// threads that called it with `true`.
  int barrier(SourceLocation location, bool predicate = false);

  /// Warp collective: returns when every lane in `mask` that has not returned has called it. For a
  /// shuffle, gives the value of lane `source`; for a ballot, the lanes whose value is not 0; for
  /// an exchange, the lanes that take part, and all their values.
  std::uint32_t collective(
      Collective kind, std::uint32_t mask, std::uint32_t value, int source, SourceLocation location,
      std::array<std::uint32_t, kWarpThreads>* all = nullptr);

  /// Active mask: the lanes of the warp at the same location with the same path hash. Returns when
  /// no other thread of the block is ready.
  std::uint32_t activemask(SourceLocation location);

  /// Reports a mistake of the running thread.
  [[gnu::cold]] void report(
      const Mistake& what, const Where& where, const std::vector<FormatArg>& args);
  /// Reports a mistake of another thread of the block.
  [[gnu::cold]] void report(
      const Mistake& what, const Where& where, const std::vector<FormatArg>& args, int thread);

  /// Temporary storage of a warp: reports it if another warp has used it since the last barrier.
  void use_warp_storage(const void* storage, SourceLocation location);

  /// Yields to the other threads of the block.
  void yield();

  /// Polls a flag, at `pc`. A thread that does nothing else spins: it yields to the other threads,
  /// and to other blocks. Returns whether it has polled the flag lately.
  bool spin(const void* pc, const void* flag);
  void wait_for_blocks(const Where& where);  ///< yields to them at once
  /// Hook of an atomic operation, which is still to come: other blocks may run first.
  void on_atomic(const Access& access);
  void on_strong_store(const void* pc);  ///< the same of a strong store
  void yield_block();                    ///< suspends the block, if another one can run

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
    SourceLocation location;  ///< where it waits
    Collective kind = Collective::sync;
    std::uint32_t mask = 0;
    std::uint32_t value = 0;
    int source = 0;
    std::array<std::uint32_t, kWarpThreads>* all = nullptr;
  };

  /// Lane masks of a warp, by state. Each lane that exists is in one of the others.
  struct Warp {
    std::uint32_t exists = 0;
    std::uint32_t ready = 0;
    std::uint32_t at_barrier = 0;
    std::uint32_t in_collective = 0;
    std::uint32_t at_activemask = 0;
    std::uint32_t yielded = 0;
    std::uint32_t returned = 0;
  };

  /// Uses of temporary storage since the last barrier.
  struct StorageUse {
    const void* storage;
    int warp;
    SourceLocation location;
  };

  static void fiber_main();
  void run_thread();
  void wait();
  void switch_to(int next);
  int next_ready() const;
  bool resume_yielded();
  bool resume_activemask();
  void release_barrier();
  bool try_to_complete(int warp, std::uint32_t mask);

  [[gnu::cold]] void report_if_warp_diverged();
  [[gnu::cold]] void report_collective_mismatch(int warp, int lane, int first_lane);
  [[gnu::cold]] void report_deadlock();
  [[gnu::cold]] void report_wait_in_vain();
  void save_path_hash() { path_hashes_[static_cast<std::size_t>(current_)] = path_hash; }
  std::uint64_t& path_hash_of(int warp, int lane) {
    return path_hashes_[static_cast<std::size_t>(warp * kWarpThreads + lane)];
  }
  Thread& thread_of(int warp, int lane) { return all_[warp * kWarpThreads + lane]; }

  GridRunner& grid_;
  SharedMemory& shared_;
  std::unique_ptr<Thread[]> all_;
  std::array<std::uint64_t, kMaxThreads> path_hashes_{};  ///< of all but the running thread
  std::array<Warp, kMaxWarps> warps_;
  std::vector<StorageUse> storage_uses_;
  std::unique_ptr<Stacks> stacks_;
  Fiber main_;
  const std::function<void()>* body_ = nullptr;
  uint3 block_{};
  int threads_in_block_ = 0;
  int current_ = 0;
  int live_ = 0;             ///< threads that have not returned
  int at_barrier_ = 0;       ///< of them, those that wait at the barrier
  int predicates_ = 0;       ///< of them, those whose predicate is true
  int last_predicates_ = 0;  ///< likewise, at the last barrier that was passed
  int first_at_barrier_ = 0;
  std::array<const void*, 4> flags_{};  ///< that `spinning_thread_` polls, `spins_` times in all
  int spinning_thread_ = 0;
  int spins_ = 0;
  int other_flags_ = 0;  ///< that it has read since it began
  std::uint64_t block_number_ = 0;
  bool is_reversed_ = false;       ///< order of the ready threads: the last one first
  bool waits_for_blocks_ = false;  ///< a thread waits for other blocks since nobody was ready
  int waiting_ = 0;                ///< that thread
  Where waits_at_;                 ///< where it does
  Progress progress_ = Progress::ended;
  Arrival barrier_;  ///< where the first thread at the barrier waits
};

/// State of one block, while blocks are interleaved: a T for each runner, reset with its next
/// block.
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

/// Counts what threads do that may end the wait of another: while all wait, it stands still.
inline std::uint64_t changes = 0;

/// Running block or, between two grids, the last one; null before the device is there.
inline BlockRunner* running = nullptr;

/// Whether an address is in one of the variables threadIdx, blockIdx, blockDim and gridDim.
bool is_built_in(const void* address);

/// Omits a barrier of a block or cluster: from now on, the threads of all kernels pass it as if it
/// were not there, and its race shows. `file` is relative to the project, and outlives the calls.
void omit_barrier(std::string_view file, int line);
bool is_omitted_barrier(SourceLocation location);  ///< whether it is the one at this place

}  // namespace rmsnorm::cpu_device
