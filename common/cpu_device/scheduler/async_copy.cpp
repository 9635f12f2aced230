#include "common/cpu_device/scheduler/async_copy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/cpu_device/scheduler/arrival.hpp"
#include "common/cpu_device/scheduler/block.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"

namespace rmsnorm::cpu_device {
namespace {

struct Copy {
  const void* caller;
  void* to;
  const void* from;
  int bytes;
  int valid;
  int group;
};

/// What a thread has begun.
struct Copies {
  int committed = 0;  // batches
  int done = 0;       // of them
  std::vector<Copy> copies;
};

constexpr unsigned kNamed = 16;

/// Where the first thread of a warp has come to a named barrier, in one of its phases.
struct WarpArrival {
  unsigned number;  // of the barrier
  int warp;
  unsigned phase;
  int thread;
  Arrival arrival;
};

/// What a block has under way.
struct BlockCopies {
  std::array<Copies, kMaxThreads> copies;
  std::array<SplitBarrier, kNamed> named{};
  std::vector<WarpArrival> warps;
};

/// That of the running block. Blocks take turns.
BlockCopies& own() {
  static PerBlock<BlockCopies> all;
  return all.of(*running);
}

Copies& copies() {
  return own().copies[static_cast<std::size_t>(running->current())];
}

void make(const Copy& copy) {
  if (copy.valid > 0)
    running->observer().access({copy.caller, copy.from, copy.valid, AccessKind::load});
  running->observer().access({copy.caller, copy.to, copy.bytes, AccessKind::store});
  std::memset(copy.to, 0, static_cast<std::size_t>(copy.bytes));
  std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.valid));
}

bool is_of_all(const SplitBarrier& barrier) {
  return barrier.expected == running->threads();
}

SplitBarrier& named(unsigned number, unsigned threads) {
  SplitBarrier& barrier = own().named[number % kNamed];
  const auto in_block = static_cast<unsigned>(running->threads());
  barrier.expected =
      static_cast<std::uint16_t>(threads == 0 ? in_block : std::min(threads, in_block));
  return barrier;
}

/// A warp comes as a whole: all its threads to one place. Another warp may come to another one.
void check_warp(unsigned number, unsigned phase, const Arrival& arrival) {
  const WarpArrival now{number % kNamed, running->warp(), phase, running->current(), arrival};
  std::vector<WarpArrival>& warps = own().warps;
  const auto known = std::ranges::find_if(warps, [&](const WarpArrival& other) {
    return other.number == now.number && other.warp == now.warp;
  });
  if (known == warps.end()) {
    warps.push_back(now);
  } else if (known->phase != phase) {
    *known = now;
  } else if (arrival != known->arrival) {
    running->observer().barrier_mismatch(arrival, known->arrival, known->thread, true);
  }
}

/// A GPU counts whole warps.
void check_count(unsigned threads, SourceLocation location) {
  if (threads % kWarpThreads == 0) return;
  running->report(mistakes::kBarrierCount, location, {running->current(), threads});
  running->stop();
}

/// Each block has its own, at an address of shared memory where nothing is.
const void* flag_of_named(unsigned number) {
  return running->shared().begin() + number % kNamed;
}

}  // namespace

void begin_copy(void* to, const void* from, int bytes, int valid) {
  Copies& own = copies();
  own.copies.push_back({__builtin_return_address(0), to, from, bytes, valid, own.committed});
}

void commit_copies() {
  ++copies().committed;
}

void wait_for_copies(int groups) {
  Copies& own = copies();
  while (own.committed - own.done > groups) {
    for (const Copy& copy : own.copies) {
      if (copy.group == own.done) make(copy);
    }
    std::erase_if(own.copies, [&](const Copy& copy) { return copy.group == own.done; });
    ++own.done;
  }
}

int copies_in_flight() {
  return copies().committed - copies().done;
}

const void* pending_copy(const void* address) {
  for (int thread = 0; thread < running->threads(); ++thread) {
    for (const Copy& copy : own().copies[static_cast<std::size_t>(thread)].copies) {
      const std::ptrdiff_t offset =
          static_cast<const char*>(address) - static_cast<const char*>(copy.to);
      if (offset >= 0 && offset < copy.bytes) return copy.caller;
    }
  }
  return nullptr;
}

void start_barrier(SplitBarrier& barrier, std::ptrdiff_t threads) {
  running->observer().access(
      {.pc = __builtin_return_address(0),
       .address = &barrier,
       .bytes = sizeof barrier,
       .kind = AccessKind::store,
       .is_bulk = true});
  barrier = {.expected = static_cast<std::uint16_t>(threads), .arrived = 0, .bytes = 0, .phase = 0};
}

void require_count(const SplitBarrier& barrier, SourceLocation location) {
  if (barrier.expected <= kMaxThreads) return;
  running->report(mistakes::kNoCount, location, {running->current()});
  running->stop();
}

void report_no_arrival(const SplitBarrier& barrier, SourceLocation location) {
  running->report(
      mistakes::kNoArrival, location,
      {running->current(), barrier.expected, barrier.expected - barrier.arrived});
  running->stop();
}

std::uint32_t count_arrivals(SplitBarrier& barrier, std::ptrdiff_t threads, const void* flag) {
  const std::uint32_t phase = barrier.phase;
  ++changes;
  barrier.arrived = static_cast<std::uint16_t>(barrier.arrived + threads);
  if (!is_of_all(barrier)) running->observer().release(flag, Scope::block);
  end_phase_if_complete(barrier);
  return phase;
}

void end_phase_if_complete(SplitBarrier& barrier) {
  if (barrier.arrived < barrier.expected || barrier.bytes != 0) return;
  barrier.arrived = 0;
  ++barrier.phase;
  if (is_of_all(barrier)) running->observer().block_synced();
}

std::uint32_t arrive(
    SplitBarrier& barrier, std::ptrdiff_t threads, std::ptrdiff_t dropped,
    SourceLocation location) {
  commit_copies();
  wait_for_copies(0);
  running->on_atomic(
      {__builtin_return_address(0), &barrier, sizeof barrier, AccessKind::atomic, true});
  require_count(barrier, location);
  const std::uint32_t phase = count_arrivals(barrier, threads, &barrier);
  barrier.expected = static_cast<std::uint16_t>(barrier.expected - dropped);
  return phase;
}

bool has_passed(const SplitBarrier& barrier, std::uint32_t phase) {
  return barrier.phase != phase;
}

void wait_for_all(
    const SplitBarrier& barrier, std::uint32_t phase, const void* flag, SourceLocation location) {
  constexpr int kMaxSpins = 100000;  // rounds in which all others have got on, if they could
  for (int round = 0; !has_passed(barrier, phase); ++round) {
    if (round == kMaxSpins) report_no_arrival(barrier, location);
    running->yield();
  }
  if (!is_of_all(barrier)) running->observer().acquire(flag, Scope::block);
}

void named_barrier(unsigned number, unsigned threads, SourceLocation location) {
  check_count(threads, location);
  SplitBarrier& barrier = named(number, threads);
  const bool is_syncthreads = number % kNamed == 0 && barrier.expected == running->threads();
  if (is_syncthreads) return running->barrier(location), void();
  check_warp(number, barrier.phase, arrival_at(location, running->stack_end()));
  const void* const flag = flag_of_named(number);
  wait_for_all(barrier, count_arrivals(barrier, 1, flag), flag, location);
}

void arrive_at_named_barrier(unsigned number, unsigned threads, SourceLocation location) {
  check_count(threads, location);
  SplitBarrier& barrier = named(number, threads);
  check_warp(number, barrier.phase, arrival_at(location, running->stack_end()));
  count_arrivals(barrier, 1, flag_of_named(number));
}

}  // namespace rmsnorm::cpu_device
