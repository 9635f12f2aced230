#pragma once
/// \file
/// Finds two threads that touch the same shared memory with nothing that puts one before the other.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/cpu_device/order.hpp"

namespace rmsnorm::cpu_device {

/// What a thread does with memory.
enum class Touch : std::uint8_t {
  load,    ///< reads
  store,   ///< writes
  atomic,  ///< reads and writes in one step
};

/// An access, as it is remembered of a word of 4 bytes: by whom and when, and ...
struct Past : Moment {
  std::uint8_t bytes : 4 = 0;  ///< ... of the word, one bit each
  bool is_strong : 1 = false;  ///< atomic, or through a volatile pointer
  Touch touch = Touch::load;   ///< what it did
  const void* pc = nullptr;    ///< where in the code
};

/// Whether two accesses of a word disturb each other if nothing orders them: one writes, and they
/// are neither atomic nor through volatile pointers. Those help from warp to warp; the lanes of one
/// need a __syncwarp() all the same.
inline bool is_conflict(const Past& a, const Past& b) {
  if ((a.bytes & b.bytes) == 0 || (a.touch == Touch::load && b.touch == Touch::load)) return false;
  const bool in_warp = a.block == b.block && a.thread / 32 == b.thread / 32;
  const bool is_atomic = a.touch == Touch::atomic || b.touch == Touch::atomic;
  return !a.is_strong || !b.is_strong || (in_warp && !is_atomic);
}

/// What is wrong with an access, if anything.
struct Finding {
  bool is_race = false;       ///< nothing separates it from an earlier one, `other`
  Past other{};               ///< if it is a race
  bool is_unwritten = false;  ///< a load of bytes that nobody has written
};

/// Finds accesses of a block to shared memory that nothing puts in an order.
class RaceDetector {
  /// 4 bytes: what was done to them since the last barrier.
  struct Word {
    std::uint64_t epoch = 0;
    std::uint64_t block = 0;
    std::uint8_t written = 0;  ///< bytes that this block has written, one bit each
    std::vector<Past> loads;
    std::vector<Past> stores;
  };

 public:
  /// What is known of one block.
  class OfBlock {
    friend class RaceDetector;
    std::vector<Word> words;
    std::uint64_t epoch = 1;  // counts barriers
    std::uint64_t block = 1;
  };

  /// Asks this order.
  explicit RaceDetector(const Order& order) : order_(order) {}

  /// Sets the running block aside, and goes on with another.
  void swap_block(OfBlock& other) { std::swap(of_, other); }

  void begin_launch() { padding_.clear(); }  ///< forgets the variables
  /// A byte of a variable that is padding, `offset` bytes from the start of shared memory: it may
  /// be read, as a part of a struct, though nobody writes it.
  void add_padding(std::size_t offset);
  void begin_block();  ///< forgets the block before
  void barrier();      ///< all threads of the block have met

  /// `offset` counts the bytes from the start of shared memory; `now` is the access, without bytes.
  Finding access(std::size_t offset, int bytes, Past now);

 private:
  bool find(const std::vector<Past>& past, const Past& now, Finding& to) const;

  const Order& order_;
  OfBlock of_;                         // the running one
  std::vector<std::uint8_t> padding_;  // of each word, one bit for a byte
};

}  // namespace rmsnorm::cpu_device
