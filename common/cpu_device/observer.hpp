#pragma once
/// \file
/// Watches every load and store of a kernel: counts what it costs, and finds what is wrong with it.
///
/// The compiler calls us at each of them (hooks.cpp). What the lanes of a warp do at the same place
/// for the n-th time since they last met is one request: that is how a GPU carries it out.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/race_detector.hpp"
#include "common/observation.hpp"

namespace rmsnorm::cpu_device {

/// Whether the running thread is in a kernel's own code, and that kernel is watched. The compiler's
/// calls look here first: most of the time, there is nothing more to do.
inline bool in_watched_kernel = false;
/// Whether launches are watched now.
inline bool is_watching = false;

class Observer {
 public:
  /// Watches the launches from now on. In global memory a kernel may touch these tensors, and
  /// allocations of its own, but not what lies around a tensor in its allocation.
  void start(std::vector<Tensor> tensors);
  /// Ends it, and gives what was counted.
  Observation stop();

  /// Ends it, and forgets.
  static void ignore() { is_watching = false; }

  // What the runtime reports.

  /// The kernel's code, and the memory in which the launch keeps its arguments.
  void launch_begins(const void* kernel, const void* arguments, std::size_t argument_bytes);
  std::string kernel() const;
  void block_begins();
  void block_ends();
  void barrier_passed(Place place, int threads);
  void lanes_met(Meeting kind, int warp, std::uint32_t lanes, Place place);
  void all_paused();

  // Between these two, the running thread is in the kernel's own code.

  static void enter_kernel() { in_watched_kernel = is_watching; }
  static void leave_kernel() { in_watched_kernel = false; }

  /// A load or store of the running thread. `pc` is where it returns to.
  void access(const void* pc, const void* address, int bytes, Touch touch);

 private:
  /// One place in the code that touches one tensor or shared variable.
  struct Site {
    const void* pc;
    bool is_shared;
    bool is_store;
    int bytes;
    int what;  ///< index into names_
    std::int64_t requests = 0, lanes = 0, sectors = 0, wavefronts = 0, conflicts = 0;
  };
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
  struct Meetings {
    std::int64_t times = 0;
    std::int64_t lanes = 0;
  };

  void shared_access(const void* pc, const void* address, int bytes, Touch touch);
  void global_access(const void* pc, const void* address, int bytes, Touch touch);
  void record(
      const void* pc, bool is_shared, Touch touch, int bytes, int what, std::uintptr_t address);
  void count(int warp);
  void count(std::size_t site, int warp);
  static bool pairs_agree(const Request& request, int bit);
  static void count_sectors(const Request& request, Site& site);
  static void count_wavefronts(const Request& request, Site& site);
  int name(const std::string& text);
  Hazard hazard(const void* pc) const;
  void report_race(
      const RaceDetector::Conflict& conflict, const void* pc, std::size_t offset, Touch touch);
  [[noreturn]] void report_outside(const void* pc, const void* address, int bytes, Touch touch);

  std::vector<Tensor> tensors_;
  const void* kernel_ = nullptr;
  const char* arguments_ = nullptr;
  std::size_t argument_bytes_ = 0;
  std::int64_t blocks_ = 0;

  std::vector<std::string> names_;
  std::vector<Site> sites_;
  std::unordered_map<std::uint64_t, int> site_of_;
  std::vector<std::array<Pending, kMaxWarps>> pending_;  // of each site
  std::map<std::pair<std::string, std::pair<std::string, int>>, Meetings> meetings_;
  RaceDetector races_;
};

/// The device has one.
inline Observer& observer() {
  static Observer observer;
  return observer;
}

/// While one of these lives, the device's own work is not taken for the kernel's.
class NotWatching {
 public:
  NotWatching() : was_in_kernel_(in_watched_kernel) { in_watched_kernel = false; }
  ~NotWatching() { in_watched_kernel = was_in_kernel_; }
  NotWatching(const NotWatching&) = delete;
  NotWatching& operator=(const NotWatching&) = delete;

 private:
  bool was_in_kernel_;
};

}  // namespace rmsnorm::cpu_device
