#pragma once
/// \file
/// Old values: a strong load may read what was there before the newest store, as long as nothing
/// orders that store before it. Real memory holds the newest value alone, so the old one is put
/// back for the moment of the load.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/watch/order.hpp"

namespace rmsnorm::cpu_device {

/// Keeps, of each word of a launch that a strong store changes, the value from before.
class OldValues {
 public:
  static constexpr std::size_t kMostBytes = 8;  ///< of one word

  /// For each scope, the number of a thread's fence.sc of at least that, in the order of all.
  using Fences = std::array<std::uint64_t, kScopes>;

  /// The newest store to a word, and what was there before.
  struct Word {
    std::array<char, kMostBytes> before{};           ///< the value ...
    std::shared_ptr<const Order::Flag> flag_before;  ///< ... and what it had released
    int bytes = 0;                                   ///< its size
    Timestamp store{};                               ///< the newest
    const void* pc = nullptr;                        ///< where in the code it is
    Fences fences{};                                 ///< its thread's next ones; 0: none yet

   private:
    friend class OldValues;
    /// A thread that has read the word since then.
    struct Reader {
      Timestamp first;      // time, if it has seen the newest value
      int old_reads = 0;    // so often it got the old one
      bool is_new = false;  // whether it has seen the newest
    };
    std::vector<Reader> readers;
  };

  void begin_launch();  ///< forgets all

  /// A thread of the running block is about to store, or to change atomically, the word of this
  /// number. What is not strong ends the word's old value.
  void store(const Order& order, std::uintptr_t number, const Access& access, int thread);
  /// It is about to load the word. If it may see the old value, and has not done so a few times,
  /// that is put into memory until restore(), and the word is given; else null.
  const Word* load(const Order& order, std::uintptr_t number, const Access& access, int thread);
  /// A thread of the running block calls a fence.sc. Of two threads that each store, fence and load
  /// the other's word, one sees the newest.
  /// \param now its time
  /// \param scope for which it is one
  /// \param widest the scope that contains all
  void fence(const Timestamp& now, Scope scope, Scope widest);
  /// Puts the newest value back.
  void restore();

 private:
  static std::uint64_t number_of(const Timestamp& at) {
    return std::uint64_t{at.block} << 16 | at.thread;
  }

  std::unordered_map<std::uintptr_t, Word> words_;
  std::uint64_t fences_ = 0;                               // so many fence.sc until now
  std::unordered_map<std::uint64_t, Fences> last_fences_;  // by thread
  std::unordered_map<std::uint64_t, std::vector<std::uintptr_t>> unfenced_;  // its words
  void* changed_ = nullptr;  // where an old value is in memory now ...
  std::array<char, kMostBytes> newest_{};
  int changed_bytes_ = 0;
};

}  // namespace rmsnorm::cpu_device
