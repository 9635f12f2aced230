#pragma once
/// \file
/// Finds two threads that touch the same shared memory with nothing that puts one before the other.
///
/// Two things order the threads of a block: __syncthreads() orders all of them, __syncwarp() the
/// lanes that it names. (A shuffle orders nothing but its own values.) For __syncwarp, each lane
/// has a vector clock: it knows up to which of its steps every other lane of its warp is behind it.

#include <array>
#include <cstdint>
#include <vector>

namespace rmsnorm::cpu_device {

/// What a thread does with memory.
enum class Touch : std::uint8_t {
  load,    ///< reads
  store,   ///< writes
  atomic,  ///< reads and writes in one step
};

/// Finds accesses of a block to shared memory that nothing puts in an order.
class RaceDetector {
 public:
  /// An earlier access that nothing separates from this one.
  struct Conflict {
    const void* pc;  ///< where in the code
    int thread;      ///< counted through the block
    Touch touch;     ///< what it did
  };
  /// What is wrong with an access, if anything.
  struct Finding {
    bool is_race = false;       ///< nothing separates two accesses
    Conflict other{};           ///< the earlier one, if it is a race
    bool is_unwritten = false;  ///< a load of bytes that nobody in this block has written
  };

  void begin_block();                             ///< forgets the block before
  void barrier();                                 ///< all threads of the block have met
  void sync_warp(int warp, std::uint32_t lanes);  ///< these lanes have met

  /// `offset` counts the bytes from the start of shared memory.
  Finding access(const void* pc, int thread, std::size_t offset, int bytes, Touch touch);

 private:
  struct Past {
    const void* pc;
    std::uint32_t clock;
    std::uint16_t thread;
    std::uint8_t bytes;  ///< of the word, one bit each
    Touch touch;
  };
  /// 4 bytes: what was done to them since the last barrier.
  struct Word {
    std::uint64_t epoch = 0;
    std::uint64_t block = 0;
    std::uint8_t written = 0;  ///< bytes that this block has written, one bit each
    std::vector<Past> loads;
    std::vector<Past> stores;
  };

  bool is_before(const Past& past, int thread) const;
  bool find(const std::vector<Past>& past, int thread, std::uint8_t bytes, Touch touch, Finding& to)
      const;

  std::vector<Word> words_;
  std::uint64_t epoch_ = 1;  // counts barriers
  std::uint64_t block_ = 1;
  /// clock_[t][l]: the last step of lane l, of the same warp, that is known to be before thread t.
  std::vector<std::array<std::uint32_t, 32>> clock_ = fresh_clocks();

  static std::vector<std::array<std::uint32_t, 32>> fresh_clocks();
};

}  // namespace rmsnorm::cpu_device
