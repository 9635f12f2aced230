#include "common/cpu_device/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cpu_device/hazard.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/watcher.hpp"

namespace rmsnorm::cpu_device {
namespace {

/// Reports a mistake of the running thread, and gives up the grid: on a GPU, it would hang.
void give_up(Place place, const std::string& what, const char* advice) {
  Watcher::leave_kernel();
  hazards().add("cluster " + place_text(line_of(place)) + advice, [&] {
    return hazard_at(line_of(place), running->current(), what, advice);
  });
  running->stop();
}

constexpr const char* kReachAll = "Every thread of every block has to reach each cluster barrier";

}  // namespace

Cluster::Cluster(int blocks, int threads)
    : parts_(static_cast<std::size_t>(blocks)), threads_(static_cast<std::size_t>(threads)) {
  for (Part& part : parts_) {
    part.memory = std::make_unique_for_overwrite<char[]>(SharedMemory::kMemoryBytes);
  }
}

void Cluster::begin(std::uint64_t number) {
  number_ = number;
  for (Part& part : parts_) {
    std::unique_ptr<char[]> memory = std::move(part.memory);
    watcher().forget(memory.get(), SharedMemory::kMemoryBytes);
    part = {
        .memory = std::move(memory),
        .arrivals = std::vector<int>(threads_),
        .waits = std::vector<int>(threads_),
        .arrived = {}};
  }
}

void Cluster::begin_block(int rank, const BlockRunner& runner) {
  part(rank).runner = &runner;
}

void Cluster::end_block(int rank) {
  part(rank).has_ended = true;
  report_if_gone(rank);
}

/// A block may return when it has waited at a barrier behind each access of others to its memory.
void Cluster::report_if_gone(int rank) const {
  const Part& own = parts_[static_cast<std::size_t>(rank)];
  if (own.passed >= own.needed) return;
  hazards().add("left " + place_text(line_of_call(own.needed_by.pc)), [&] {
    return hazard_at(
        own.needed_by.pc,
        fmt::format(
            "a thread of block {} of the cluster {} shared memory of block {}, which may have "
            "returned",
            own.needed_by_rank, verb(own.needed_by.touch), rank),
        "A block's shared memory ends with it: let all wait at a cluster barrier behind the last "
        "access");
  });
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

void Cluster::arrive(int rank, bool is_ordered, Place place) {
  const NotWatching pause;
  Part& own = part(rank);
  const auto thread = static_cast<std::size_t>(running->current());
  if (own.arrivals[thread] != own.waits[thread]) {
    give_up(
        place, fmt::format("thread {} arrives at the cluster barrier twice", thread),
        "Between two arrivals, a thread has to wait");
  }
  const int barrier = ++own.arrivals[thread];
  const auto i = static_cast<std::size_t>(barrier);
  if (own.arrived.size() <= i) own.arrived.resize(i + 1);
  ++own.arrived[i];
  watcher().arrives(is_ordered);
  if (own.arrived[i] == running->live()) watcher().hand_on_arrivals(flag(barrier));
}

void Cluster::wait(int rank, Place place) {
  constexpr int kPatience = 10000;  // rounds in which all others have got on, if they could
  const NotWatching pause;
  Part& own = part(rank);
  const auto thread = static_cast<std::size_t>(running->current());
  if (own.waits[thread] == own.arrivals[thread]) {
    give_up(
        place, fmt::format("thread {} waits at a cluster barrier where it has not arrived", thread),
        "Let it arrive first");
  }
  const int barrier = ++own.waits[thread];
  ++own.waiting;
  for (int round = 0; own.passed < barrier; ++round) {
    if (own.waiting == running->live() && all_arrived(barrier)) {
      watcher().take(flag(barrier));
      watcher().barrier_of_cluster(place, own.waiting);
      own.waiting = 0;
      own.passed = barrier;
      const auto i = static_cast<std::size_t>(barrier);
      const auto gone = std::find_if(parts_.begin(), parts_.end(), [&](const Part& other) {
        return other.has_ended && (other.arrived.size() <= i || other.arrived[i] == 0);
      });
      if (gone != parts_.end()) {
        give_up(
            place,
            fmt::format(
                "block {} of the cluster has returned, and others wait for it at this cluster "
                "barrier",
                gone - parts_.begin()),
            kReachAll);
      }
      running->pause();  // the others go on beside it, and what they do is one request
      break;
    }
    if (round == kPatience) {
      give_up(
          place,
          fmt::format("thread {} waits at a cluster barrier for threads that never arrive", thread),
          kReachAll);
    }
    running->wait_for_blocks();
  }
}

void* Cluster::map(int rank, int to, void* address) {
  if (to == rank || !shared_memory().contains(address) || to < 0 || to >= blocks()) return address;
  return memory(to) + shared_memory().offset_of(address) - SharedMemory::kFirstByte;
}

SharedByte Cluster::find(int rank, const void* address) const {
  if (shared_memory().contains(address)) return {rank, shared_memory().offset_of(address)};
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
  hazards().add("early " + place_text(line_of_call(access.pc)), [&] {
    return hazard_at(
        access.pc,
        fmt::format(
            "thread {} {} shared memory of block {} of the cluster, which may not have begun",
            running->current(), verb(access.touch), other),
        "Let all blocks of the cluster wait at a cluster barrier first");
  });
}

const BlockRunner* Cluster::receiver(int rank, int other, const Access& access) {
  report_if_early(rank, other, access);
  const Part& its = part(other);
  return its.has_ended ? nullptr : its.runner;
}

void Cluster::touch(int rank, int other, const Access& access) {
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
  if (its.has_ended) report_if_gone(other);
}

}  // namespace rmsnorm::cpu_device
