#pragma once
/// \file
/// Finds accesses that nothing orders, by threads of one block or of two, and loads of what has no
/// value, in all memory that a kernel may touch.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/cpu_device/interface/watching.hpp"
#include "common/cpu_device/watch/order.hpp"
#include "common/cpu_device/watch/shadow.hpp"

namespace rmsnorm::cpu_device {

/// The shadows of the running block's shared memory, and of the memory that blocks share.
class Races {
 public:
  /// What is known of one block's shared memory.
  struct BlockState {
    Shadow::BlockState variables;  ///< __shared__ variables
    Shadow::BlockState dynamic;    ///< what the launch asked for
  };

  /// Asks this order.
  explicit Races(const Order& order) : order_(order) {}

  void start() { used_ = 0; }                                 ///< forgets all memory
  void begin_launch() { variables_.set_initialized(false); }  ///< forgets the shared variables
  void begin_block();                                         ///< forgets the block before
  /// Suspends the running block, and resumes another.
  void swap_block(BlockState& other);
  /// A byte of a variable that is padding, `offset` bytes from the start of shared memory: it may
  /// be read, as a part of a struct, though nobody writes it.
  void add_padding(std::size_t offset);

  /// These bytes, as far as they are in a piece of memory, have got a value.
  void filled(const KnownMemory& memory, const void* data, std::size_t bytes);
  void reset(const void* data, std::size_t bytes);  ///< clears the shadow of these bytes
  void freed(const void* data);                     ///< this memory is no more

  /// An access to the running block's shared memory, `offset` bytes from its start; `now` is the
  /// access, without bytes.
  Finding access(std::size_t offset, int bytes, const PastAccess& now);
  /// An access to a piece of memory that blocks share.
  Finding access(
      const KnownMemory& memory, std::uintptr_t address, int bytes, const PastAccess& now);

  /// The last store of this launch to any of these bytes, if there is one.
  const PastAccess* stored(const KnownMemory& memory, std::uintptr_t address, int bytes);

 private:
  /// One piece of memory that blocks share.
  struct Region {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    Shadow shadow = Shadow::of_all();
  };
  Region& region_of(const KnownMemory& memory);

  const Order& order_;
  Shadow variables_ = Shadow::of_block();
  Shadow dynamic_ = Shadow::of_block();  // far behind them
  std::vector<Region> regions_;  // those in use, and then others, whose memory is used again
  std::size_t used_ = 0;
};

}  // namespace rmsnorm::cpu_device
