#include "common/cpu_device/scheduler/bulk_copy.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "common/cpu_device/scheduler/block.hpp"
#include "common/cpu_device/scheduler/grid.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"

namespace rmsnorm::cpu_device {
namespace {

constexpr unsigned kPhases = 256;  // that a SplitBarrier tells apart

/// Something on its way to shared memory.
struct Transfer {
  const void* caller;
  std::size_t to;    // offset in shared memory
  const void* from;  // null: it is the value
  std::uint64_t value;
  unsigned bytes;
  int sender = -1;  // rank of another block in the cluster
};

/// What is on its way to a block, by the offset of the barrier that counts it.
struct BulkCopies {
  std::map<std::size_t, std::vector<Transfer>> coming;
  struct Sent {
    int sender;
    unsigned phase;
  };
  std::map<std::size_t, Sent> sent;  // by other blocks: what has come last
  int polls = 0;                     // at barriers, since something has happened
};

BulkCopies& of(const BlockRunner& block) {
  static PerBlock<BulkCopies> all;
  return all.of(block);
}

/// A block that something is on its way to has returned.
void report_left(const Transfer& transfer, int rank) {
  running->report(
      mistakes::kLeftBeforeTransfer, transfer.caller,
      {transfer.from != nullptr ? "copy" : "store", rank,
       running->grid().cluster() != nullptr ? " of the cluster" : ""});
}

/// The running thread uses a barrier, which has to be there: its init() is a store. What else
/// happens to it is in an order by itself.
void on_barrier_access(const void* caller, const SplitBarrier& barrier, bool arrives) {
  running->observer().access(
      {.pc = caller,
       .address = &barrier,
       .bytes = sizeof barrier,
       .kind = AccessKind::load,
       .is_strong = arrives,
       .is_bulk = true});
}

/// Carries out what is on its way to shared memory, as the barrier counts it.
void complete_transfers(SplitBarrier& barrier) {
  BulkCopies& own = of(*running);
  const std::size_t offset = running->shared().offset_of(&barrier);
  const auto found = own.coming.find(offset);
  if (found == own.coming.end()) return;
  const std::vector<Transfer> transfers = std::move(found->second);
  own.coming.erase(found);
  own.polls = 0;
  ++changes;
  for (const Transfer& transfer : transfers) {
    char* const to = running->shared().begin() + transfer.to;
    running->observer().access(
        {.pc = transfer.caller,
         .address = to,
         .bytes = static_cast<int>(transfer.bytes),
         .kind = AccessKind::store,
         .is_bulk = true});
    std::memcpy(
        to, transfer.from != nullptr ? transfer.from : &transfer.value,
        std::size_t{transfer.bytes});
    if (transfer.sender >= 0) own.sent[offset] = {transfer.sender, barrier.phase};
    barrier.bytes -= static_cast<int>(transfer.bytes);
  }
  running->observer().release(&barrier, Scope::cluster);
  end_phase_if_complete(barrier);
}

/// The running thread has waited with an acquire of its block's scope: reports it if the bytes of
/// the phase that is over came from other blocks.
void report_if_sent(const SplitBarrier& barrier, SourceLocation location) {
  const BulkCopies& own = of(*running);
  const auto last = own.sent.find(running->shared().offset_of(&barrier));
  if (last == own.sent.end() || (last->second.phase + 1) % kPhases != barrier.phase) return;
  running->report(mistakes::kNarrowAcquire, location, {running->current(), last->second.sender});
}

}  // namespace

void arrive_expecting(SplitBarrier& barrier, unsigned bytes, SourceLocation location) {
  on_barrier_access(__builtin_return_address(0), barrier, true);
  require_count(barrier, location);
  barrier.bytes += static_cast<int>(bytes);
  count_arrivals(barrier, 1, &barrier);
}

void begin_bulk_copy(
    void* to, const void* from, unsigned bytes, SplitBarrier& barrier, SourceLocation location) {
  const void* const caller = __builtin_return_address(0);
  if (bytes % kBulkBytes != 0) {
    running->report(mistakes::kBulkSize, location, {running->current(), bytes, kBulkBytes});
    running->stop();
  }
  running->observer().access(
      {.pc = caller,
       .address = from,
       .bytes = static_cast<int>(bytes),
       .kind = AccessKind::load,
       .is_bulk = true});
  running->observer().release(&barrier, Scope::cluster);  // also that it reads
  of(*running).coming[running->shared().offset_of(&barrier)].push_back(
      {caller, running->shared().offset_of(to), from, 0, bytes});
}

void send(void* to, std::uint64_t value, unsigned bytes, SplitBarrier& barrier) {
  const NotWatching guard;
  const void* const caller = __builtin_return_address(0);
  Transfer transfer{caller, 0, nullptr, value, bytes};
  const Access access{caller, to, static_cast<int>(bytes), AccessKind::store};
  Cluster* const cluster = running->grid().cluster();
  if (cluster == nullptr) {
    transfer.to = running->shared().offset_of(to);
    running->observer().remote_store_issued(access, {0, transfer.to});
    of(*running).coming[running->shared().offset_of(&barrier)].push_back(transfer);
    return;
  }
  const int rank = running->grid().rank();
  const SharedByte byte = cluster->find(rank, to);
  const SharedByte counter = cluster->find(rank, &barrier);
  running->observer().remote_store_issued(access, byte);
  const BlockRunner* const receiver = cluster->receiver(rank, counter.rank, access);
  if (receiver == nullptr) {  // nobody knows what a GPU would do
    if (cluster->has_ended(counter.rank)) report_left(transfer, counter.rank);
    running->stop();
  }
  transfer.to = byte.offset;
  if (receiver != running) transfer.sender = rank;
  of(*receiver).coming[counter.offset].push_back(transfer);
}

bool try_wait(SplitBarrier& barrier, unsigned parity, Scope scope, SourceLocation location) {
  constexpr int kMaxSpins = 1000;  // rounds in which all others have got on, if they could
  require_count(barrier, location);
  const auto is_over = [&] { return barrier.phase % 2 != parity % 2; };
  if (!is_over()) complete_transfers(barrier);
  if (is_over()) {
    on_barrier_access(__builtin_return_address(0), barrier, false);
    if (scope == Scope::block) report_if_sent(barrier, location);
    running->observer().acquire(&barrier, Scope::cluster);
    return true;
  }
  if (++of(*running).polls > kMaxSpins * running->threads()) {
    if (barrier.arrived < barrier.expected) report_no_arrival(barrier, location);
    const int bytes = barrier.bytes;
    running->report(
        bytes > 0 ? mistakes::kBytesNeverCome : mistakes::kBytesNotExpected, location,
        {running->current(), std::abs(bytes)});
    running->stop();
  }
  if (running->grid().cluster() != nullptr) {
    running->wait_for_blocks(location);
  } else {
    running->yield();
  }
  return false;
}

void report_transfers_left(const BlockRunner& block, int rank) {
  const BulkCopies& left = of(block);
  if (!left.coming.empty()) report_left(left.coming.begin()->second.front(), rank);
}

}  // namespace rmsnorm::cpu_device
