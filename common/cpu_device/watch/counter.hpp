#pragma once
/// \file
/// Counts what the loads, stores and meetings of a kernel cost.
///
/// What the lanes of a warp do at the same place for the n-th time since they last met is one
/// request: that is how a GPU carries it out.

#include <array>
#include <cstdint>
#include <map>
#include <string>
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
  shared,  ///< the block's own shared memory
  remote,  ///< that of other blocks of its cluster
};

/// Counts what a launch asks of the memory, line by line.
class Counter {
  /// What the lanes of a warp did at a site at the same time.
  struct Request {
    int lanes = 0;
    std::array<std::uint8_t, kWarpThreads> lane;
    std::array<std::uintptr_t, kWarpThreads> address;
  };
  /// The requests of a warp at a site since it last met; lane l has taken part in the first
  /// times[l].
  struct Pending {
    std::array<int, kWarpThreads> times{};
    std::vector<Request> requests;
    std::size_t used = 0;
  };

 public:
  /// The requests of a block that others interrupt: lanes that waited for these join them later.
  struct OfBlock {
    std::vector<std::array<Pending, kMaxWarps>> pending;  ///< of each site
  };

  /// Begins anew.
  void start() { *this = {}; }
  /// What was counted, line by line.
  LaunchCounts result() const;

  /// The next block of the launch, which may overlap the launch before it.
  void block_begins(bool may_overlap) {
    ++blocks_;
    if (may_overlap) ++overlapping_blocks_;
  }
  /// All lanes of a warp, or all threads of the block, have come to the same point: what they do
  /// from now on is no request of before.
  void warp_met(int warp);
  void block_met();  ///< the same for all warps of the block
  /// Another block goes on: keeps the requests of this one, and takes out those of the other.
  void swap_block(OfBlock& other);
  /// The lanes that wait because they did the same too often have all done it equally often.
  void all_paused();

  /// A load or store of the running thread, to the tensor or shared variable `of`. In shared
  /// memory, the address is the offset.
  void access(const Access& access, Space space, const std::string& of, std::uintptr_t address);
  /// A bulk copy from the tensor `of`, by no lane.
  void bulk_load(const Access& access, const std::string& of);
  /// A barrier or a shuffle, one of kKinds, that so many threads have passed.
  void meeting(const char* kind, Place place, int threads);

 private:
  /// One place in the code that touches one tensor or shared variable.
  struct Site {
    const void* pc;
    Space space;
    bool is_store;
    bool is_atomic;
    bool is_bulk;
    int bytes;
    int what;  ///< index into names_
    CachePolicy policy;
    std::int64_t requests = 0, lanes = 0, sectors = 0, wavefronts = 0, conflicts = 0;
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
  std::map<std::pair<std::string, SourceLine>, LineCount> meetings_;
};

}  // namespace rmsnorm::cpu_device
