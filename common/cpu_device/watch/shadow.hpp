#pragma once
/// \file
/// Shadow memory, a shadow word for each word: finds races, and loads of what has no value.
///
/// Of the running block, a shadow word has each access since the block's last barrier. Of what came
/// before, and of other blocks, it has the last plain and the last strong accesses of each
/// kind, of a few threads: a strong one says less than a plain one, as it collides with fewer.

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/watch/order.hpp"

namespace rmsnorm::cpu_device {

/// An access in a shadow word: its timestamp, and ...
struct PastAccess : Timestamp {
  std::uint8_t bytes : 4 = 0;          ///< ... of the word, one bit each
  bool is_strong : 1 = false;          ///< atomic, or through a volatile pointer ...
  Scope scope : 2 = Scope::system;     ///< ... for these threads
  bool is_volatile : 1 = false;        ///< the latter
  AccessKind kind = AccessKind::load;  ///< what it did
  const void* pc = nullptr;            ///< where in the code
};

/// Whether an access `a` and one of the running block, `b`, to one word disturb each other if
/// nothing orders them: one writes, and they are not both strong, each for the other's thread.
/// Volatile ones help from warp to warp; the lanes of one need a __syncwarp() all the same.
inline bool is_conflict(const Order& order, const PastAccess& a, const PastAccess& b) {
  if ((a.bytes & b.bytes) == 0 || (a.kind == AccessKind::load && b.kind == AccessKind::load))
    return false;
  if (!a.is_strong || !b.is_strong) return true;
  if (a.block != b.block) return std::min(a.scope, b.scope) < order.scope_with(a.block);
  return a.thread / 32 == b.thread / 32 && a.is_volatile && b.is_volatile;
}

/// What is wrong with an access, if anything.
struct Finding {
  bool is_race = false;       ///< nothing separates it from an earlier one, `other`
  PastAccess other{};         ///< if it is a race
  bool is_unwritten = false;  ///< a load of bytes that nobody has written

  bool is_wrong() const { return is_race || is_unwritten; }  ///< anything
};

/// The shadow of one piece of memory.
class Shadow {
  using Accesses = boost::container::small_vector_base<PastAccess>;
  /// Shadow word, of 4 bytes.
  struct Word {
    std::uint32_t generation =
        0;                     ///< of the shadow, when this was noted: if another, it is forgotten
    std::uint32_t epoch = 0;   ///< of the block, when this was tidied
    std::uint8_t written = 0;  ///< bytes that have a value, one bit each
    boost::container::small_vector<PastAccess, 1> loads;
    boost::container::small_vector<PastAccess, 1> stores;
  };

 public:
  /// Shadow of one block's piece, if each block has its own.
  class BlockState {
    friend class Shadow;
    std::vector<Word> words;
    std::uint32_t generation = 1;
  };

  /// Of memory that only one block can touch: what is before its barriers is over.
  static Shadow of_block() { return Shadow(true); }
  /// Of memory that all blocks can touch.
  static Shadow of_all() { return Shadow(false); }

  /// Suspends the running block's piece, and resumes another's.
  void swap_block(BlockState& other) { std::swap(of_, other); }

  void reset() { ++of_.generation; }  ///< no access so far
  /// Bytes that there is room for.
  std::size_t room() const { return of_.words.capacity() * 4; }
  /// Makes room for so many bytes; there may be more later.
  void reserve(std::size_t bytes) { of_.words.reserve((bytes + 3) / 4); }
  /// From the next forget() on, no byte or, from the start, all have values.
  void set_initialized(bool all) { all_have_values_ = all, has_value_.clear(); }
  /// From the next forget() on, this byte has a value from the start.
  void set_byte_initialized(std::size_t offset);
  void filled(std::size_t offset, std::size_t bytes);  ///< these bytes have got values

  /// An access to so many bytes at an offset; `now` is the access, without bytes.
  Finding access(const Order& order, std::size_t offset, int bytes, PastAccess now);

  /// The last store of the launch to any of these bytes, if there is one.
  const PastAccess* stored(const Order& order, std::size_t offset, std::size_t bytes);

 private:
  explicit Shadow(bool is_of_block) : is_of_block_(is_of_block) {}
  Word& word(std::size_t number);
  void prune(const Order& order, Word& word) const;
  static void keep_latest(const Order& order, Accesses& accesses, bool also_of_epoch);
  static void add(const Order& order, Accesses& accesses, const PastAccess& now);

  BlockState of_;
  bool is_of_block_;
  bool all_have_values_ = false;
  std::vector<std::uint8_t> has_value_;  // from the start: of each word, one bit for a byte
};

}  // namespace rmsnorm::cpu_device
