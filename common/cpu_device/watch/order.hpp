#pragma once
/// \file
/// Happens-before order of a launch's accesses, after PTX's memory consistency model.
///
/// Within a block, __syncthreads() orders all threads, and __syncwarp() the lanes that it names. (A
/// shuffle orders nothing but its own values.) Blocks have no order. A thread releases what it
/// knows in one way: it writes, calls a fence, and then changes a flag by a strong access; or the
/// change itself has release semantics. Another thread acquires it if it reads that change by a
/// strong access, and then calls a fence; or the read itself has acquire semantics. Each of the
/// four has a scope, which has to contain both threads.
///
/// Two forms are accepted beyond that. The first fence may be that of each thread, before a
/// barrier, or that of a thread behind the barrier, for the whole block. And instead of the second
/// one, a barrier may stand behind an atomic operation: what relies on it is noted.

#include <array>
#include <bitset>
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

/// A strong access to a flag.
struct FlagAccess {
  std::uintptr_t flag;          ///< a number for its address
  int thread;                   ///< of the running block
  Scope scope = Scope::system;  ///< for which threads it is strong
  bool is_ordered = false;      ///< has acquire semantics, or release semantics
  bool is_atomic = false;       ///< reads and writes in one step
  const void* pc = nullptr;     ///< where in the code
};

/// The happens-before order of a launch.
class Order {
 private:
  /// Up to which time what each thread of a block did is known.
  using Clock = std::vector<std::uint32_t>;
  /// The clocks of several blocks; null: of none.
  using Clocks = std::map<std::uint32_t, std::shared_ptr<const Clock>>;
  using Knowledge = std::shared_ptr<const Clocks>;

 public:
  /// Blocks that are in one scope together have one group, by its number.
  using Groups = std::array<std::uint64_t, kScopes>;

  /// What was released by a flag.
  struct Flag {
    /// To the threads of a group: for each scope, what is not released to all of the next one. What
    /// is for all of the system is apart by the device that released it: others may not see that.
    std::array<std::map<std::uint64_t, Knowledge>, kScopes> of_group;
    Timestamp writer{};  ///< the last thread that has stored
  };

  /// What is missing for an order that a flag was meant to give.
  struct Gap {
    /// The kinds.
    enum class Kind { none, fence, scope };
    Kind kind = Kind::none;    ///< a fence behind the load of the flag, or a wider scope
    const void* pc = nullptr;  ///< where the flag was read
  };

 private:
  /// What a thread knows by having read a flag.
  struct Acquired {
    std::uintptr_t flag;
    Timestamp at;
    Knowledge known;
    const void* noted = nullptr;  // no fence, but a barrier, stood behind this read
  };
  /// What a thread has read of a flag.
  struct Read {
    std::uintptr_t flag;
    std::shared_ptr<const Flag> state;
    Scope scope = Scope::system;
    Timestamp at{};
    const void* pc = nullptr;
    bool is_atomic = false;
    bool is_open = false;            // a fence behind it would acquire something
    bool is_behind_barrier = false;  // which has acquired it, with a note
    bool is_fenced = false;          // a fence is behind it, but for too few
  };
  /// The fences of one scope.
  struct Fences {
    Clock last;                     // of each thread, its time
    std::uint32_t of_all = 0;       // what all threads did until then is before a fence ...
    std::uint32_t of_all_next = 0;  // ... and after the next barrier, until then
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
    std::array<Fences, kScopes> fences;        // by Scope
    Clock arrived;                             // 0: it was not ordered
    std::vector<Acquired> acquired;
    std::vector<std::vector<Read>> reads;  // by thread
    bool any_read = false;
    mutable std::size_t last_hit = 0;  // index into `acquired`: queries repeat
  };

  /// Suspends the running block, and resumes another.
  void swap_block(BlockState& other) { std::swap(of_, other); }

  // Events.

  /// All was before it.
  void begin_launch(bool has_ranks);
  /// No other block is before or behind it. Of a cluster, by its number; 0: of none. Of a rank,
  /// for which the scope of the device is its own device's.
  void begin_block(int threads, std::uint64_t cluster, int rank);
  void barrier();                                 ///< orders all threads of the block
  void sync_warp(int warp, std::uint32_t lanes);  ///< orders these lanes
  void fence(int thread, Scope scope);            ///< a thread has called a fence
  void arrive(int thread, bool is_ordered);       ///< at a barrier of several blocks
  /// All threads of the block have arrived: releases what the ordered ones did before.
  void release_arrivals(std::uintptr_t flag);
  /// A thread changes a flag. An atomic operation continues the release sequence of others.
  void release(const FlagAccess& access);
  void acquire(const FlagAccess& access) { acquire(access, flag(access.flag)); }  ///< it reads it
  /// The same of an older state of the flag.
  void acquire(const FlagAccess& access, const std::shared_ptr<const Flag>& state);
  /// The state of a flag; null: nothing was released by it.
  std::shared_ptr<const Flag> flag(std::uintptr_t number) const;

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
  /// The narrowest scope that contains the running block and another one of the launch.
  Scope scope_with(std::uint32_t block) const;
  /// The scope that contains all threads of the launch.
  Scope widest() const { return widest_; }
  /// Whether all that was done at a moment is before what the thread does now.
  bool is_before(const Timestamp& past, int thread) const {
    if (!is_of_launch(past)) return true;
    if (past.block == of_.number && is_before_in_block(past, thread)) return true;
    return !of_.acquired.empty() && has_acquired(past, thread);
  }
  /// If it is not: whether a flag was meant to say so, and what is missing.
  Gap gap(const Timestamp& past, int thread) const;
  /// Where a flag was read, without a fence behind it, on which is_before() has relied; or null.
  const void* take_note() const { return std::exchange(note_, nullptr); }

 private:
  bool is_before_in_block(const Timestamp& past, int thread) const {
    return past.thread == thread || past.time < of_.epoch ||
           (past.thread / 32 == thread / 32 && of_.step[thread][past.thread % 32] >= past.step);
  }
  bool has_acquired(const Timestamp& past, int thread) const;
  bool covers(const Acquired& acquired, const Timestamp& past, int thread) const;
  Clock fenced(Scope scope, int thread, bool is_ordered) const;
  Knowledge of(const Flag& flag, Scope scope) const;
  Knowledge released(int thread, Clock until) const;
  void know(std::uintptr_t flag, int thread, const Knowledge& known, const void* noted);
  Flag& changed(std::uintptr_t flag);
  static constexpr std::uint64_t kNoCluster = std::uint64_t{1} << 63;
  bool has_cluster() const { return groups_of(of_.number)[1] < kNoCluster; }
  Knowledge released_to(Scope scope, const FlagAccess& access);
  const Groups& groups_of(std::uint32_t block) const { return groups_[block - first_block_]; }

  std::uint32_t blocks_ = 0;       // so far
  std::uint32_t first_block_ = 1;  // of the launch
  std::uint32_t time_ = 1;
  std::vector<Groups> groups_;    // of the launch's blocks
  Scope widest_ = Scope::device;  // worth keeping: without ranks, the system is one device
  BlockState of_;                 // the running one
  std::uint64_t changes_ = 0;     // of what a thread would release
  /// What the last thread has released, which stays the same until something changes that.
  struct LastReleased {
    std::uint32_t block = 0;
    int thread = 0;
    std::uint64_t changes = 0;
    std::array<Knowledge, kScopes> known;
    std::bitset<kScopes> is_known;
  } last_released_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Flag>> flags_;
  mutable const void* note_ = nullptr;
};

}  // namespace rmsnorm::cpu_device
