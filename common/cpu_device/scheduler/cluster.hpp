#pragma once
/// \file
/// A cluster: blocks that are on the device at the same time, and may touch each other's shared
/// memory between two barriers of the cluster.

#include <cstddef>
#include <memory>
#include <vector>

#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/scheduler/block.hpp"

namespace rmsnorm::cpu_device {

inline constexpr int kMaxCluster = 16;         ///< blocks of a cluster, if the kernel asks for it
inline constexpr int kMaxPortableCluster = 8;  ///< that every GPU with clusters can hold

/// The blocks of one cluster.
class Cluster {
 public:
  /// Of so many blocks of the grid, each of so many threads.
  Cluster(GridRunner& grid, int blocks, int threads);

  std::uint64_t number() const { return number_; }                ///< counted from 1
  int blocks() const { return static_cast<int>(parts_.size()); }  ///< of the cluster
  /// Where the shared memory of a block is while another block runs.
  char* memory(int rank) { return parts_[static_cast<std::size_t>(rank)].memory.get(); }

  /// Whether all threads of a block have returned.
  bool has_ended(int rank) const { return parts_[static_cast<std::size_t>(rank)].has_ended; }

  void begin(std::uint64_t number);  ///< resets the state for the next cluster
  /// It runs from now on.
  void begin_block(int rank, const BlockRunner& runner) { part(rank).runner = &runner; }
  void end_block(int rank);  ///< all its threads have returned

  // What the running thread calls; `rank` is its block's.

  /// Arrives at the cluster's barrier. `is_ordered`: what it did until then is before what others
  /// do behind the barrier.
  void arrive(int rank, bool is_ordered, SourceLocation location);
  void wait(
      int rank, SourceLocation location);  ///< returns when all threads of the cluster have arrived

  /// An address of another block's shared memory, for one of the running block's.
  void* map(int rank, int to, void* address);
  /// The byte at such an address, or at one of the running block `rank`; rank -1: it is neither.
  SharedByte find(int rank, const void* address) const;
  /// The block of rank `other`, to which the running thread sends something; null if it is not
  /// there.
  const BlockRunner* receiver(int rank, int other, const Access& access);
  /// Access of the running thread to another block's shared memory; reports a block that may not
  /// have begun or may have returned.
  void on_remote_access(int rank, int other, const Access& access);

 private:
  struct Part {
    std::unique_ptr<char[]> memory;
    const BlockRunner* runner = nullptr;
    bool has_ended = false;
    std::vector<int> arrivals;  // of each thread
    std::vector<int> waits;     // of each thread
    std::vector<int> arrived;   // threads, at each barrier
    int waiting = 0;            // threads
    int passed = 0;             // barriers
    int needed = 0;             // barriers that it must wait for before it may return ...
    Access needed_by{};         // ... because of this access ...
    int needed_by_rank = 0;     // ... of this block
  };

  Part& part(int rank) { return parts_[static_cast<std::size_t>(rank)]; }
  void report_if_early(int rank, int other, const Access& access) const;
  void report_if_exited(int rank) const;
  bool has_arrived(const Part& part, int barrier) const;
  bool all_arrived(int barrier) const;
  const void* flag(int barrier) const;

  GridRunner& grid_;
  std::vector<Part> parts_;
  std::size_t threads_;
  std::uint64_t number_ = 0;
};

}  // namespace rmsnorm::cpu_device
