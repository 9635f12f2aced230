#pragma once
/// \file
/// Finds accesses that nothing orders, by threads of one block or of two, and loads of what has no
/// value, in all memory that a kernel may touch.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/watching.hpp"
#include "common/cpu_device/order.hpp"
#include "common/cpu_device/shadow.hpp"

namespace rmsnorm::cpu_device {

/// The shadows of the running block's shared memory, and of the memory that blocks share.
class Races {
 public:
  /// Asks this order.
  explicit Races(const Order& order) : order_(order) {}

  void start() { used_ = 0; }                               ///< forgets all memory
  void begin_launch() { block_.begin_with_values(false); }  ///< forgets the shared variables
  void begin_block() { block_.forget(); }                   ///< forgets the block before
  /// Sets the running block aside, and goes on with another.
  void swap_block(Shadow::OfBlock& other) { block_.swap_block(other); }
  /// A byte of a variable that is padding, `offset` bytes from the start of shared memory: it may
  /// be read, as a part of a struct, though nobody writes it.
  void add_padding(std::size_t offset) { block_.begin_with_value(offset); }

  /// These bytes, as far as they are in a piece of memory, have got a value.
  void filled(const KnownMemory& memory, const void* data, std::size_t bytes);
  void forget(const void* data, std::size_t bytes);  ///< what was done to these bytes
  void freed(const void* data);                      ///< this memory is no more

  /// An access to the running block's shared memory, `offset` bytes from its start; `now` is the
  /// access, without bytes.
  Finding access(std::size_t offset, int bytes, const Past& now) {
    return block_.access(order_, offset, bytes, now);
  }
  /// An access to a piece of memory that blocks share.
  Finding access(const KnownMemory& memory, std::uintptr_t address, int bytes, const Past& now);

  /// The last store of this launch to any of these bytes, if there is one.
  const Past* stored(const KnownMemory& memory, std::uintptr_t address, int bytes);

 private:
  /// One piece of memory that blocks share.
  struct Region {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    Shadow shadow = Shadow::of_all();
  };
  Region& region_of(const KnownMemory& memory);

  const Order& order_;
  Shadow block_ = Shadow::of_block();
  std::vector<Region> regions_;  // those in use, and then others, whose memory is used again
  std::size_t used_ = 0;
};

}  // namespace rmsnorm::cpu_device
