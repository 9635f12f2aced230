#pragma once
/// \file
/// What goes into shared memory by itself, while a barrier there counts the bytes: bulk copies
/// (cp.async.bulk) and stores into another block of the cluster (st.async).
///
/// Here both happen when a thread of the receiving block looks at the barrier, at the latest
/// possible time: who reads before, finds nothing.

#include <cstddef>
#include <cstdint>

#include "common/cpu_device/scheduler/access.hpp"
#include "common/cpu_device/scheduler/async_copy.hpp"

namespace rmsnorm::cpu_device {

/// mbarrier.arrive.expect_tx: arrives, and lets the phase wait for so many bytes besides.
[[gnu::noinline]] void arrive_expecting(
    SplitBarrier& barrier, unsigned bytes, SourceLocation location);

/// Begins a copy from global memory, of a multiple of 16 bytes between multiples of 16.
[[gnu::noinline]] void begin_bulk_copy(
    void* to, const void* from, unsigned bytes, SplitBarrier& barrier, SourceLocation location);

/// Sends 4 or 8 bytes to an address that map_shared() gave, and to the barrier that counts them.
[[gnu::noinline]] void send(void* to, std::uint64_t value, unsigned bytes, SplitBarrier& barrier);

/// Whether the phase of this parity is over; if not, the others run first. What other blocks have
/// sent is released to the cluster: an acquire of a block's scope does not reach it.
[[gnu::noinline]] bool try_wait(
    SplitBarrier& barrier, unsigned parity, Scope scope, SourceLocation location);

class BlockRunner;
/// A block's threads have all returned: reports what is still on its way to it.
void report_transfers_left(const BlockRunner& block, int rank);

}  // namespace rmsnorm::cpu_device
