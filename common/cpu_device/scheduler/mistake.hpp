#pragma once
/// \file
/// What can be wrong with a kernel, and with the calls around it. What is said about it stands in
/// one table, watch/sentences.cpp.

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/cpu_device/scheduler/source_location.hpp"

namespace rmsnorm::cpu_device {

/// Kinds of mistakes.
enum class Mistake {
  // Threads that meet.
  other_barrier,          ///< threads of a block wait at different barriers
  other_call_of_barrier,  ///< the same line, which different calls have led to
  other_named_barrier,    ///< likewise, threads of a warp at a named barrier
  other_call_of_named_barrier,
  returned_before_barrier,
  unnamed_lane,   ///< the mask does not name the lane itself
  other_meeting,  ///< lanes of a warp meet in different calls
  returned_lanes,
  absent_source,
  distance,  ///< a shuffle leaves the warp
  deadlock,
  deadlock_at_barrier,
  // The launch is not what the kernel is made for.
  launch_bounds,
  cluster_dims,
  // Barriers that count.
  no_count,
  no_arrival,
  bytes_never_come,
  bytes_not_expected,
  bulk_size,
  left_before_transfer,  ///< a block has returned, and something is on its way to it
  // Clusters.
  arrives_twice,
  waits_without_arrival,
  block_returned,
  never_arrives,
  left_before_access,
  not_begun,
  // Shared memory.
  no_room,
  storage_beyond,
  storage_outside,
  storage_of_two_warps,
  // Where a thread loads and stores.
  index_beyond,
  outside_shared,
  outside_dynamic,
  misaligned_shared,
  outside_global,
  misaligned_global,
  null_pointer,
  memory_of_host,
  variable_of_host,
  input_written,
  input_filled,
  unwritten_shared,
  unwritten_global,
  stale_read_only,  ///< __ldg() of what the launch wrote
  no_wait,          ///< for the kernel before
  host_access,      ///< the host's code uses the device's memory
  freed_before_use,
  // Races.
  race_in_block,
  stores_in_block,
  race_in_cluster,
  race_of_blocks,
  stores_of_blocks,
  atomic_of_block,
  // Crashes.
  crash_division,
  crash_instruction,
  crash_null,
  crash_stack,
  crash_address,
  count_,  ///< none: how many there are
};

/// What a sentence has to fill in. A place becomes "FILE:LINE".
struct Word {
  template <std::integral Number>
  Word(Number number) : value(static_cast<std::int64_t>(number)) {}  ///< in decimals
  Word(const char* text) : value(std::string(text)) {}               ///< as it is
  Word(std::string text) : value(std::move(text)) {}                 ///< likewise
  Word(SourceLocation location) : value(location) {}                 ///< in the source
  /// The line of the call that returns there.
  static Word of_call(const void* pc) { return Word(pc); }

  std::variant<std::int64_t, std::string, SourceLocation, const void*> value;  ///< one of these

 private:
  explicit Word(const void* pc) : value(pc) {}
};

/// Where it showed: a place in the source, or the place in the code to which a call returns.
using Where = std::variant<SourceLocation, const void*>;

}  // namespace rmsnorm::cpu_device
