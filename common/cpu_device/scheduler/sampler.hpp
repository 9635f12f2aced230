#pragma once
/// \file
/// Runs few blocks of a large launch (interface/sampling.hpp).

#include <cstdint>
#include <vector>

#include "common/cpu_device/interface/sampling.hpp"
#include "common/cpu_device/scheduler/access.hpp"

namespace rmsnorm::cpu_device {

/// Chooses blocks, and notes what they do.
class Sampler {
 public:
  bool is_on() const { return is_on_; }  ///< whether launches run a part of their blocks
  void start(std::uint64_t few_blocks);  ///< from now on
  Sample stop();                         ///< no longer
  void obstruct(const char* reason);     ///< the sample says nothing of the whole launch
  void access(const Access& access);     ///< to global memory

  /// The blocks to run of a launch that begins, in order: all of a cluster, or none.
  std::vector<std::uint64_t> choose(std::uint64_t blocks, int cluster);

 private:
  bool is_on_ = false;
  std::uint64_t few_blocks_ = 0;
  Sample sample_;
};

}  // namespace rmsnorm::cpu_device
