#pragma once
/// \file
/// Notes, step by step, what the threads of a launch's first block do.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/scheduler/block.hpp"

namespace rmsnorm::cpu_device {

/// Recorder of steps. A step is what the lanes of a warp do at the same line for the n-th time
/// since the warp last synchronised, as a request is in counter.hpp.
class Recorder {
 public:
  /// Begins anew, if the launches from now on are to be recorded at all.
  void start(bool records) {
    *this = {};
    records_ = records;
  }
  std::vector<Step> take() { return std::move(steps_); }  ///< what was noted

  void block_begins() { ++blocks_; }                       ///< the next block of the launch
  bool is_on() const { return records_ && blocks_ == 1; }  ///< whether the running block is noted

  // The rest is called while it is on.

  /// A load or store of the running thread, of what begins there.
  void access(const Access& access, bool is_shared, const std::string& what, const void* begin);
  /// A shuffle brings a thread the value of another one, and takes its own to others.
  void shuffle(SourceLocation location, int thread, int from, std::uint32_t own);
  void flush_warp(int warp);              ///< its lanes have come to the same point
  void flush_block();                     ///< all threads have
  void barrier(SourceLocation location);  ///< they have, at this __syncthreads()

 private:
  /// A step that lanes may still join.
  struct Open {
    Step step;
    const char* begin;  ///< of the tensor or variable
    std::uint32_t lanes = 0;
  };
  void join(Step step, const void* begin, Step::Thread thread);

  bool records_ = false;
  int blocks_ = 0;
  std::array<std::vector<Open>, kMaxWarps> open_;  // of each warp, in its first lane's order
  std::vector<Step> steps_;
};

}  // namespace rmsnorm::cpu_device
