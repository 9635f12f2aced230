#pragma once
/// \file
/// Launches that are too large for the CPU device, of which it runs a few blocks.

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rmsnorm {

/// What came of a launch of which few blocks ran.
struct Sample {
  static constexpr std::size_t kPage = 4096;  ///< bytes, at a multiple of so many

  int kernels = 0;            ///< of the launch
  std::uint64_t blocks = 0;   ///< of the last kernel
  std::string obstacle = {};  ///< why these blocks say nothing of the whole; or ""
  /// The bytes that kernels stored: of each page, by where it begins. What is added to by an atomic
  /// operation is none of them: other blocks would have added to it, too.
  std::map<std::uintptr_t, std::bitset<kPage>> stored = {};

  /// Whether all of these bytes were stored.
  bool has_stored(const void* data, std::size_t bytes) const;
};

/// An obstacle: a launch has far fewer blocks than it was said to have.
inline constexpr const char* kTooMuchToDo = "each of its blocks has too much to do";

/// From now on, a launch runs few of its blocks: the first ones, the last ones, and some between.
/// Large memory that is allocated or set takes none until it is written, and what is copied may not
/// be large.
/// \param few_blocks  a launch of fewer blocks runs its last one alone; where it has far fewer,
///                    that is too much: kTooMuchToDo
void start_sampling(std::uint64_t few_blocks);

/// Ends it. The blocks' results are those of the whole launch unless there is an obstacle: a block
/// may depend on another one. Of several kernels, one may read what only a block of another one
/// would have written that did not run: then it finds NaN, or what was there before.
Sample stop_sampling();

/// So many bytes of the device's memory, on a boundary of a page, in which some bytes are repeated.
/// Only what is written there takes memory. Null where the system has no such addresses. It stays
/// until the program ends.
/// \param bytes    so many
/// \param pattern  that are repeated: a multiple of Sample::kPage bytes
void* repeat_in_device_memory(std::size_t bytes, const std::vector<std::byte>& pattern);

}  // namespace rmsnorm
