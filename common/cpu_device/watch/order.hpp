#pragma once
/// \file
/// Happens-before order of a launch's accesses.
///
/// Within a block, __syncthreads() orders all threads, and __syncwarp() the lanes that it names. (A
/// shuffle orders nothing but its own values.) Blocks have no order. A thread releases what it
/// knows in one way: it writes, calls __threadfence(), and then changes a flag: by an atomic
/// operation, or through a volatile pointer. Whoever reads that change has acquired what was
/// written. The fence may also be that of each thread, before a barrier, or that of a thread behind
/// the barrier, for the whole block.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/cpu_device/scheduler/access.hpp"

namespace rmsnorm::cpu_device {

/// Timestamp of an access.
struct Timestamp {
  std::uint32_t block = 0;   ///< counted over all launches, from 1
  std::uint32_t time = 0;    ///< grows with each barrier and each fence
  std::uint32_t step = 0;    ///< of the lane: grows with each __syncwarp()
  std::uint16_t thread = 0;  ///< counted through the block
};

/// The happens-before order of a launch.
class Order {
 private:
  /// Vector clock of a block's release: all that each of its threads did up to a time.
  struct Release {
    std::vector<std::uint32_t> for_block;   // by a fence of either scope
    std::vector<std::uint32_t> for_device;  // by __threadfence()
  };
  /// Vector clocks of several blocks.
  using Releases = std::map<std::uint32_t, std::shared_ptr<const Release>>;
  /// What a thread has acquired by reading a flag.
  struct Acquired {
    std::uintptr_t flag;
    Timestamp at;
    Releases releases;
  };
  /// The fences of one scope.
  struct Fences {
    std::vector<std::uint32_t> last;  // of each thread, its time
    std::uint32_t of_all = 0;         // what all threads did until then is before a fence ...
    std::uint32_t of_all_next = 0;    // ... and after the next barrier, until then
    bool any = false;
  };

 public:
  /// State of one block.
  class BlockState {
   public:
    BlockState();  ///< of none

   private:
    friend class Order;
    int threads = 0;
    std::uint32_t number = 0;
    std::uint32_t epoch = 1;  // the time of the last barrier
    /// step[t][l]: the last step of lane l, of the same warp, that is known to be before thread t.
    std::vector<std::array<std::uint32_t, 32>> step;
    std::vector<std::uint32_t> last_syncwarp;  // by thread: the time of its last __syncwarp()
    std::array<Fences, 2> fences;              // by Scope
    std::vector<std::uint32_t> arrived;        // of each thread, its time; 0: it was not ordered
    std::vector<Acquired> acquired;
    mutable std::size_t last_hit = 0;  // index into `acquired`: queries repeat
  };

  /// Suspends the running block, and resumes another.
  void swap_block(BlockState& other) { std::swap(of_, other); }

  // Events.

  void begin_launch() { first_block_ = blocks_ + 1, flags_.clear(); }  ///< all was before it
  void begin_block(int threads);                  ///< no other block is before or behind it
  void barrier();                                 ///< orders all threads of the block
  void sync_warp(int warp, std::uint32_t lanes);  ///< orders these lanes
  void fence(int thread, Scope scope);            ///< a thread has called a fence
  void arrive(int thread, bool is_ordered);       ///< at a barrier of several blocks
  /// All threads of the block have arrived: releases what the ordered ones did before.
  void release_arrivals(std::uintptr_t flag);
  /// A thread changes a flag. `is_rmw`: by an atomic operation, which continues the release
  /// sequence of others.
  void release(std::uintptr_t flag, int thread, bool is_rmw);
  void acquire(std::uintptr_t flag, int thread);  ///< a thread reads it

  // Queries.

  /// Epoch of the running block: between two barriers; no other block has the same.
  std::uint32_t epoch() const { return of_.epoch; }
  /// Now, for a thread of the running block.
  Timestamp now(int thread) const {
    return {of_.number, time_, of_.step[thread][thread % 32], static_cast<std::uint16_t>(thread)};
  }
  /// Whether it is one of the running block, since its last barrier.
  bool is_of_epoch(const Timestamp& timestamp) const {
    return timestamp.block == of_.number && timestamp.time >= of_.epoch;
  }
  /// Whether it is one of the launch that is going on.
  bool is_of_launch(const Timestamp& timestamp) const { return timestamp.block >= first_block_; }
  /// Whether all that was done at a moment is before what the thread does now.
  bool is_before(const Timestamp& past, int thread) const {
    if (!is_of_launch(past)) return true;
    if (past.block == of_.number && is_before_in_block(past, thread)) return true;
    return !of_.acquired.empty() && has_acquired(past, thread);
  }

 private:
  bool is_before_in_block(const Timestamp& past, int thread) const {
    return past.thread == thread || past.time < of_.epoch ||
           (past.thread / 32 == thread / 32 && of_.step[thread][past.thread % 32] >= past.step);
  }
  bool has_acquired(const Timestamp& past, int thread) const;
  bool covers(const Acquired& known, const Timestamp& past, int thread) const;
  std::vector<std::uint32_t> fenced(Scope scope, int thread) const;
  static void add(Releases& all, const Releases& more);

  std::uint32_t blocks_ = 0;       // so far
  std::uint32_t first_block_ = 1;  // of the launch
  std::uint32_t time_ = 1;
  BlockState of_;  // the running one
  std::unordered_map<std::uintptr_t, Releases> flags_;
};

}  // namespace rmsnorm::cpu_device
