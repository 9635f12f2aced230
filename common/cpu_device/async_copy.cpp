#include "common/cpu_device/async_copy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/cpu_device/block.hpp"
#include "common/cpu_device/observer.hpp"

namespace rmsnorm::cpu_device {
namespace {

struct Copy {
  const void* caller;
  void* to;
  const void* from;
  int bytes;
  int valid;
  int batch;
};

/// What a thread has begun.
struct Copies {
  std::uint64_t block = 0;  // whose
  int committed = 0;        // batches
  int done = 0;             // of them
  std::vector<Copy> copies;
};

Copies& copies() {
  static std::array<Copies, kMaxThreads> all;
  Copies& own = all[static_cast<std::size_t>(running->current())];
  if (own.block != running->block_number()) own = {.block = running->block_number(), .copies = {}};
  return own;
}

void make(const Copy& copy) {
  if (copy.valid > 0) observer().access({copy.caller, copy.from, copy.valid, Touch::load});
  observer().access({copy.caller, copy.to, copy.bytes, Touch::store});
  std::memset(copy.to, 0, static_cast<std::size_t>(copy.bytes));
  std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.valid));
}

}  // namespace

void begin_copy(void* to, const void* from, int bytes, int valid) {
  Copies& own = copies();
  own.copies.push_back({__builtin_return_address(0), to, from, bytes, valid, own.committed});
}

void commit_copies() {
  ++copies().committed;
}

void wait_for_copies(int batches) {
  Copies& own = copies();
  while (own.committed - own.done > batches) {
    for (const Copy& copy : own.copies) {
      if (copy.batch == own.done) make(copy);
    }
    std::erase_if(own.copies, [&](const Copy& copy) { return copy.batch == own.done; });
    ++own.done;
  }
}

int copies_in_flight() {
  return copies().committed - copies().done;
}

void start_barrier(SplitBarrier& barrier, std::ptrdiff_t threads) {
  observer().access({__builtin_return_address(0), &barrier, sizeof barrier, Touch::store});
  barrier = {.expected = static_cast<std::uint16_t>(threads), .arrived = 0, .phase = 0};
}

std::uint32_t arrive(
    SplitBarrier& barrier, std::ptrdiff_t threads, std::ptrdiff_t dropped, Place place) {
  commit_copies();
  wait_for_copies(0);
  touch_atomically(__builtin_return_address(0), &barrier, sizeof barrier);
  if (barrier.expected > kMaxThreads) running->report_no_count(place);
  const std::uint32_t phase = barrier.phase;
  const bool is_of_all = barrier.expected == running->threads();
  barrier.arrived = static_cast<std::uint16_t>(barrier.arrived + threads);
  if (!is_of_all) observer().hand_on(&barrier);
  if (barrier.arrived >= barrier.expected) {
    barrier.arrived = 0;
    ++barrier.phase;
    if (is_of_all) observer().all_met();
  }
  barrier.expected = static_cast<std::uint16_t>(barrier.expected - dropped);
  return phase;
}

bool has_passed(const SplitBarrier& barrier, std::uint32_t phase) {
  return barrier.phase != phase;
}

void wait_for_all(const SplitBarrier& barrier, std::uint32_t phase) {
  while (!has_passed(barrier, phase)) pause();
  if (barrier.expected != running->threads()) observer().take(&barrier);
}

void named_barrier(unsigned number, unsigned threads, Place place) {
  static std::array<SplitBarrier, 16> all;
  static std::uint64_t block = 0;
  const auto in_block = static_cast<unsigned>(running->threads());
  if (threads == 0) threads = (in_block + kWarpThreads - 1) / kWarpThreads * kWarpThreads;
  if (number % 16 == 0 && threads >= in_block) return running->barrier(place), void();
  if (block != running->block_number()) all = {};
  block = running->block_number();
  SplitBarrier& barrier = all[number % 16];
  barrier.expected = static_cast<std::uint16_t>(std::min(threads, in_block));
  wait_for_all(barrier, arrive(barrier, 1, 0, place));
}

}  // namespace rmsnorm::cpu_device
