#pragma once
/// \file
/// What is known of one block alone, while blocks take turns.

#include <cstdint>
#include <map>
#include <utility>

#include "common/cpu_device/block.hpp"

namespace rmsnorm::cpu_device {

/// A T for each block that runs, which begins anew with the runner's next block.
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

}  // namespace rmsnorm::cpu_device
