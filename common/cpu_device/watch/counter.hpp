#pragma once
/// \file
/// Counts what loads, stores, barriers and shuffles of a kernel cost.
///
/// A request: what the lanes of a warp do at the same instruction for the n-th time since the warp
/// last synchronised. That is how a GPU carries it out.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/scheduler/block.hpp"

namespace rmsnorm::cpu_device {

/// Which memory a request is for.
enum class Space {
  global,  ///< tensors
  peer,    ///< those of another rank
  poll,    ///< the rank's own, by strong loads: what other ranks may change
  signal,  ///< any rank's, by strong stores of one word, or atomic operations
  shared,  ///< the block's own shared memory
  remote,  ///< that of other blocks of its cluster
};

/// Counts what a launch asks of the memory, line by line.
class Counter {
  /// Request: the lanes of a warp, and their addresses.
  struct Request {
    int lanes = 0;
    std::array<std::uint8_t, kWarpThreads> lane;
    std::array<std::uintptr_t, kWarpThreads> address;
  };
  /// Pending requests of a warp at a site since it last synchronised; lane l has taken part in the
  /// first times[l].
  struct Pending {
    std::array<int, kWarpThreads> times{};
    std::vector<Request> requests;
    std::size_t used = 0;
  };

 public:
  /// Pending requests of a suspended block: lanes join them later.
  struct BlockState {
    std::vector<std::array<Pending, kMaxWarps>> pending;  ///< of each site
    bool has_met = false;  ///< whether its threads have met at a barrier
  };

  /// Begins anew.
  void start() { *this = {}; }
  /// What was counted, line by line.
  LaunchCounts result() const;

  /// The next block of the launch, which may overlap the launch before it.
  void block_begins(bool may_overlap) {
    ++blocks_;
    has_met_ = false;
    if (may_overlap) ++overlapping_blocks_;
  }
  /// Flushes the pending requests of a warp: all its lanes have synchronised.
  void flush_warp(int warp);
  void flush_block();  ///< the same for all warps of the block
  /// Suspends the running block's pending requests, and resumes another's.
  void swap_block(BlockState& other);
  /// Flushes the requests beyond the threshold, after all lanes have come to it.
  void all_yielded();

  /// A load or store of the running thread, to the tensor or shared variable `of`. In shared
  /// memory, the address is the offset.
  void access(const Access& access, Space space, const std::string& of, std::uintptr_t address);
  /// A bulk copy from the tensor `of`, by no lane.
  void bulk_load(const Access& access, const std::string& of);
  /// A barrier or a shuffle, one of kKinds, that so many threads have passed.
  void synchronization(const char* kind, SourceLocation location, int threads);

 private:
  /// An instruction that accesses one tensor or shared variable.
  struct Site {
    const void* pc;
    Space space;
    bool is_store;
    bool is_atomic;
    bool is_bulk;
    int bytes;
    int what;  ///< index into names_
    CachePolicy policy;
    std::int64_t requests = 0, lanes = 0, sectors = 0, wavefronts = 0, conflicts = 0, late = 0;
  };
  /// What was counted of barriers, or of shuffles, at one place.
  struct Synchronization {
    std::int64_t requests = 0, lanes = 0;
  };
  int name(const std::string& text);
  std::size_t site_of(const Access& access, Space space, const std::string& of);
  void count(std::size_t site, int warp);
  static bool pairs_agree(const Request& request, int bit);
  static void count_sectors(const Request& request, Site& site);
  static void count_wavefronts(const Request& request, Site& site);

  std::int64_t blocks_ = 0, overlapping_blocks_ = 0;
  std::vector<std::string> names_;
  std::vector<Site> sites_;
  std::unordered_map<std::uint64_t, std::size_t> known_sites_;
  std::vector<std::array<Pending, kMaxWarps>> pending_;  // of each site
  bool has_met_ = false;  // the running block's threads, at a barrier
  /// By kind, file and line: of one place, texts of the same address.
  std::map<std::tuple<const char*, const char*, int>, Synchronization> synchronizations_;
};

}  // namespace rmsnorm::cpu_device
