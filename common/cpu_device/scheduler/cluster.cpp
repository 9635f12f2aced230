#include "common/cpu_device/scheduler/cluster.hpp"

#include <algorithm>

#include "common/cpu_device/scheduler/grid.hpp"

namespace rmsnorm::cpu_device {

Cluster::Cluster(GridRunner& grid, int blocks, int threads)
    : grid_(grid),
      parts_(static_cast<std::size_t>(blocks)),
      threads_(static_cast<std::size_t>(threads)) {
  for (Part& part : parts_) {
    part.memory = std::make_unique_for_overwrite<char[]>(SharedMemory::kMemoryBytes);
  }
}

void Cluster::begin(std::uint64_t number) {
  number_ = number;
  for (Part& part : parts_) {
    std::unique_ptr<char[]> memory = std::move(part.memory);
    grid_.observer().reset(memory.get(), SharedMemory::kMemoryBytes);
    part = {
        .memory = std::move(memory),
        .arrivals = std::vector<int>(threads_),
        .waits = std::vector<int>(threads_),
        .arrived = {}};
  }
}

void Cluster::end_block(int rank) {
  part(rank).has_ended = true;
  report_if_exited(rank);
}

/// A block may return when it has waited at a barrier behind each access of others to its memory.
void Cluster::report_if_exited(int rank) const {
  const Part& own = parts_[static_cast<std::size_t>(rank)];
  if (own.passed >= own.needed) return;
  running->report(
      mistakes::kLeftBeforeAccess, own.needed_by.pc,
      {own.needed_by_rank, verb(own.needed_by.kind), rank});
}

/// A block whose threads have all returned has no more to come.
bool Cluster::has_arrived(const Part& part, int barrier) const {
  if (part.runner == nullptr) return false;
  if (part.has_ended) return true;
  const int returned = part.runner->threads() - part.runner->live();
  const auto i = static_cast<std::size_t>(barrier);
  return i < part.arrived.size() && part.arrived[i] + returned >= part.runner->threads();
}

bool Cluster::all_arrived(int barrier) const {
  return std::all_of(
      parts_.begin(), parts_.end(), [&](const Part& part) { return has_arrived(part, barrier); });
}

/// What is handed on at a barrier: an address where nothing is.
const void* Cluster::flag(int barrier) const {
  constexpr std::uintptr_t kBarriers = 1 << 16;
  return reinterpret_cast<const void*>(number_ * kBarriers + static_cast<std::uintptr_t>(barrier));
}

void Cluster::arrive(int rank, bool is_ordered, SourceLocation location) {
  const NotWatching guard;
  ++changes;
  Part& own = part(rank);
  const auto thread = static_cast<std::size_t>(running->current());
  if (own.arrivals[thread] != own.waits[thread]) {
    running->report(mistakes::kArrivesTwice, location, {thread});
    running->stop();
  }
  const int barrier = ++own.arrivals[thread];
  const auto i = static_cast<std::size_t>(barrier);
  if (own.arrived.size() <= i) own.arrived.resize(i + 1);
  ++own.arrived[i];
  grid_.observer().cluster_arrived(is_ordered);
  if (own.arrived[i] == running->live()) grid_.observer().release_arrivals(flag(barrier));
}

void Cluster::wait(int rank, SourceLocation location) {
  constexpr int kMaxSpins = 10000;  // rounds in which all others have got on, if they could
  const NotWatching guard;
  Part& own = part(rank);
  const auto thread = static_cast<std::size_t>(running->current());
  if (own.waits[thread] == own.arrivals[thread]) {
    running->report(mistakes::kWaitsWithoutArrival, location, {thread});
    running->stop();
  }
  const int barrier = ++own.waits[thread];
  ++own.waiting;
  for (int round = 0; own.passed < barrier; ++round) {
    if (own.waiting == running->live() && all_arrived(barrier)) {
      grid_.observer().acquire(flag(barrier), Scope::cluster);
      grid_.observer().cluster_barrier_passed(location, own.waiting);
      own.waiting = 0;
      own.passed = barrier;
      const auto i = static_cast<std::size_t>(barrier);
      const auto gone = std::find_if(parts_.begin(), parts_.end(), [&](const Part& other) {
        return other.has_ended && (other.arrived.size() <= i || other.arrived[i] == 0);
      });
      if (gone != parts_.end()) {
        running->report(mistakes::kBlockReturned, location, {gone - parts_.begin()});
        running->stop();
      }
      running->yield();  // the others go on beside it, and what they do is one request
      break;
    }
    if (round == kMaxSpins) {
      running->report(mistakes::kNeverArrives, location, {thread});
      running->stop();
    }
    running->wait_for_blocks(location);
  }
}

void* Cluster::map(int rank, int to, void* address) {
  if (to == rank || !grid_.shared().contains(address) || to < 0 || to >= blocks()) return address;
  return memory(to) + grid_.shared().offset_of(address) - SharedMemory::kFirstByte;
}

SharedByte Cluster::find(int rank, const void* address) const {
  if (grid_.shared().contains(address)) return {rank, grid_.shared().offset_of(address)};
  const auto* const byte = static_cast<const char*>(address);
  for (int other = 0; other < blocks(); ++other) {
    const char* const begin = parts_[static_cast<std::size_t>(other)].memory.get();
    if (byte < begin || byte >= begin + SharedMemory::kMemoryBytes) continue;
    return {other, static_cast<std::size_t>(byte - begin) + SharedMemory::kFirstByte};
  }
  return {-1, 0};
}

/// A block has begun when it has come to a barrier at which the running block has waited.
void Cluster::report_if_early(int rank, int other, const Access& access) const {
  if (other == rank || parts_[static_cast<std::size_t>(rank)].passed > 0) return;
  running->report(mistakes::kNotBegun, access.pc, {running->current(), verb(access.kind), other});
}

const BlockRunner* Cluster::receiver(int rank, int other, const Access& access) {
  report_if_early(rank, other, access);
  const Part& its = part(other);
  return its.has_ended ? nullptr : its.runner;
}

void Cluster::on_remote_access(int rank, int other, const Access& access) {
  const Part& own = part(rank);
  Part& its = part(other);
  report_if_early(rank, other, access);
  // The next barrier at which this thread arrives is the first that tells the other block of it.
  const int needed = own.arrivals[static_cast<std::size_t>(running->current())] + 1;
  if (needed > its.needed) {
    its.needed = needed;
    its.needed_by = access;
    its.needed_by_rank = rank;
  }
  if (its.has_ended) report_if_exited(other);
}

}  // namespace rmsnorm::cpu_device
