#pragma once
/// \file
/// Finds accesses to global memory that nothing orders, by threads of one block or of two, and
/// loads of what has no value.
///
/// Of each word, the last store is remembered, and the last loads of two threads. That is less than
/// the detector of shared memory remembers, and finds a mistake if any one pair of its threads
/// shows it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/watching.hpp"
#include "common/cpu_device/order.hpp"
#include "common/cpu_device/race_detector.hpp"

namespace rmsnorm::cpu_device {

/// Finds accesses of a launch to global memory that nothing puts in an order.
class GlobalRaces {
 public:
  /// Asks this order.
  explicit GlobalRaces(const Order& order) : order_(order) {}

  /// Forgets all memory.
  void start() { regions_.clear(), used_ = 0; }
  /// These bytes, as far as they are in a piece of memory, have got a value.
  void filled(const KnownMemory& memory, const void* data, std::size_t bytes);
  /// Forgets what was done to these bytes.
  void forget(const void* data, std::size_t bytes);
  /// This memory is no more.
  void freed(const void* data);

  /// An access to a piece of memory; `now` is the access, without bytes.
  Finding access(const KnownMemory& memory, std::uintptr_t address, int bytes, Past now);

  /// The last store of this launch to any of these bytes, if there is one.
  const Past* stored(const KnownMemory& memory, std::uintptr_t address, int bytes);

 private:
  struct Cell {
    Past store;
    Past loads[2];  // of two threads, the later one first
  };
  /// The cells of one piece of memory, each of so many bytes.
  struct Region {
    std::uintptr_t begin;
    std::size_t bytes;
    std::size_t cell_bytes;
    std::size_t first_cell;
    std::vector<bool> has_value;  // of each cell; empty if all have
  };

  Region& region_of(const KnownMemory& memory);
  bool find(const Past& other, const Past& now, Finding& to) const;

  const Order& order_;
  std::vector<Region> regions_;
  std::vector<Cell> cells_;  // what is left in them from before is before this launch
  std::size_t used_ = 0;
};

}  // namespace rmsnorm::cpu_device
