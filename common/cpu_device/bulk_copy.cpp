#include "common/cpu_device/bulk_copy.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/grid.hpp"
#include "common/cpu_device/hazard.hpp"
#include "common/cpu_device/per_block.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/watcher.hpp"

namespace rmsnorm::cpu_device {
namespace {

/// Something on its way to shared memory.
struct Transfer {
  const void* caller;
  std::size_t to;    // offset in shared memory
  const void* from;  // null: it is the value
  std::uint64_t value;
  unsigned bytes;
};

/// What is on its way to a block, by the offset of the barrier that counts it.
struct BulkCopiesOfBlock {
  std::map<std::size_t, std::vector<Transfer>> coming;
  int looks = 0;  // at barriers, since something has happened
};

BulkCopiesOfBlock& of(const BlockRunner& block) {
  static PerBlock<BulkCopiesOfBlock> all;
  return all.of(block);
}

/// A block that something is on its way to has returned.
void report_left(const Transfer& transfer, int rank) {
  hazards().add("left " + place_text(line_of_call(transfer.caller)), [&] {
    return hazard_at(
        transfer.caller,
        fmt::format(
            "a {} into shared memory of block {}{} is on its way when that has returned",
            transfer.from != nullptr ? "copy" : "store", rank,
            grid_runner().cluster() != nullptr ? " of the cluster" : ""),
        "Let the block wait at the barrier that counts its bytes");
  });
}

/// The running thread uses a barrier, which has to be there: its init() is a store. What else
/// happens to it is in an order by itself.
void touch_barrier(const void* caller, const SplitBarrier& barrier, bool arrives) {
  watcher().access(
      {.pc = caller,
       .address = &barrier,
       .bytes = sizeof barrier,
       .touch = Touch::load,
       .is_volatile = arrives,
       .is_bulk = true});
}

/// Carries out what is on its way to shared memory, as the barrier counts it.
void receive(SplitBarrier& barrier) {
  BulkCopiesOfBlock& own = of(*running);
  const auto found = own.coming.find(shared_memory().offset_of(&barrier));
  if (found == own.coming.end()) return;
  const std::vector<Transfer> transfers = std::move(found->second);
  own.coming.erase(found);
  own.looks = 0;
  for (const Transfer& transfer : transfers) {
    char* const to = shared_memory().begin() + transfer.to;
    watcher().access(
        {.pc = transfer.caller,
         .address = to,
         .bytes = static_cast<int>(transfer.bytes),
         .touch = Touch::store,
         .is_bulk = true});
    std::memcpy(
        to, transfer.from != nullptr ? transfer.from : &transfer.value,
        std::size_t{transfer.bytes});
    barrier.bytes -= static_cast<int>(transfer.bytes);
  }
  watcher().hand_on(&barrier);
  end_phase_if_complete(barrier);
}

}  // namespace

void arrive_expecting(SplitBarrier& barrier, unsigned bytes, Place place) {
  touch_barrier(__builtin_return_address(0), barrier, true);
  if (barrier.expected > kMaxThreads) running->report_no_count(place);
  barrier.bytes += static_cast<int>(bytes);
  count_in(barrier, 1, &barrier);
}

void begin_bulk_copy(
    void* to, const void* from, unsigned bytes, SplitBarrier& barrier, Place place) {
  const void* const caller = __builtin_return_address(0);
  if (bytes % kBulkBytes != 0) running->report_bulk_size(bytes, place);
  watcher().access(
      {.pc = caller,
       .address = from,
       .bytes = static_cast<int>(bytes),
       .touch = Touch::load,
       .is_bulk = true});
  watcher().hand_on(&barrier);  // also that it reads
  of(*running).coming[shared_memory().offset_of(&barrier)].push_back(
      {caller, shared_memory().offset_of(to), from, 0, bytes});
}

void send(void* to, std::uint64_t value, unsigned bytes, SplitBarrier& barrier) {
  const NotWatching pause;
  const void* const caller = __builtin_return_address(0);
  Transfer transfer{caller, 0, nullptr, value, bytes};
  const Access access{caller, to, static_cast<int>(bytes), Touch::store};
  Cluster* const cluster = grid_runner().cluster();
  if (cluster == nullptr) {
    transfer.to = shared_memory().offset_of(to);
    watcher().sends(access, {0, transfer.to});
    of(*running).coming[shared_memory().offset_of(&barrier)].push_back(transfer);
    return;
  }
  const int rank = grid_runner().rank();
  const SharedByte byte = cluster->find(rank, to);
  const SharedByte counter = cluster->find(rank, &barrier);
  watcher().sends(access, byte);
  const BlockRunner* const receiver = cluster->receiver(rank, counter.rank, access);
  if (receiver == nullptr) {  // nobody knows what a GPU would do
    if (cluster->has_ended(counter.rank)) report_left(transfer, counter.rank);
    running->stop();
  }
  transfer.to = byte.offset;
  of(*receiver).coming[counter.offset].push_back(transfer);
}

bool try_wait(SplitBarrier& barrier, unsigned parity, Place place) {
  constexpr int kPatience = 1000;  // rounds in which all others have got on, if they could
  if (barrier.expected > kMaxThreads) running->report_no_count(place);
  const auto is_over = [&] { return barrier.phase % 2 != parity % 2; };
  if (!is_over()) receive(barrier);
  if (is_over()) {
    touch_barrier(__builtin_return_address(0), barrier, false);
    watcher().take(&barrier);
    return true;
  }
  if (++of(*running).looks > kPatience * running->threads()) {
    if (barrier.arrived < barrier.expected) {
      running->report_no_arrival(place, barrier.arrived, barrier.expected);
    }
    running->report_no_bytes(place, barrier.bytes);
  }
  if (grid_runner().cluster() != nullptr) {
    running->wait_for_blocks();
  } else {
    running->pause();
  }
  return false;
}

void report_transfers_left(const BlockRunner& block, int rank) {
  const BulkCopiesOfBlock& left = of(block);
  if (!left.coming.empty()) report_left(left.coming.begin()->second.front(), rank);
}

}  // namespace rmsnorm::cpu_device
