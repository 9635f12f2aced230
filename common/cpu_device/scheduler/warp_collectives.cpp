/// \file
/// Warp collectives: shuffles, votes, matches, reductions and __syncwarp().

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "common/cpu_device/scheduler/block.hpp"

namespace rmsnorm::cpu_device {
namespace {

/// Whether two calls can be one collective: those of one function of CUDA, wherever they are. A
/// library's functions have to be called together.
bool is_same_call(const SourceLocation& a, const SourceLocation& b) {
  if (a.function == nullptr || b.function == nullptr)
    return a.function == b.function && is_same_line(a, b);
  return a.function == b.function || std::strcmp(a.function, b.function) == 0;
}

/// "lane 3", "lanes 0 to 15 and 31"
std::string lanes_of(std::uint32_t mask) {
  std::string text = std::popcount(mask) == 1 ? "lane " : "lanes ";
  bool is_first = true;
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const int run = std::countr_one(mask >> lane);
    if (!is_first) text += ", ";
    text += run == 1 ? fmt::format("{}", lane) : fmt::format("{} to {}", lane, lane + run - 1);
    is_first = false;
    lane += run;
  }
  return text;
}

std::string mask_text(std::uint32_t mask) {
  return fmt::format("{:#010x}", mask);
}

const char* name_of(Collective kind) {
  switch (kind) {
    case Collective::sync:
      return "__syncwarp()";
    case Collective::shuffle:
      return "a shuffle";
    case Collective::ballot:
      return "a vote";
    case Collective::exchange:
      return "a match or a reduction";
  }
  return "";
}

/// The name of a function of CUDA, or what a library's function does.
const char* name_of(Collective kind, const SourceLocation& location) {
  return location.function == nullptr ? name_of(kind) : location.function;
}

}  // namespace

std::uint32_t BlockRunner::collective(
    Collective kind, std::uint32_t mask, std::uint32_t value, int source, SourceLocation location,
    std::array<std::uint32_t, kWarpThreads>* all) {
  const NotWatching guard;
  save_path_hash();
  const std::uint32_t own_bit = 1u << lane();
  if ((mask & own_bit) == 0) {
    report(mistakes::kUnnamedLane, location, {current_, name_of(kind), mask_text(mask), lane()});
    stop();
  }
  Thread& me = all_[current_];
  me.location = location;
  me.kind = kind;
  me.mask = mask;
  me.value = value;
  me.source = source;
  me.all = all;
  warps_[warp()].ready &= ~own_bit;
  warps_[warp()].in_collective |= own_bit;
  if (try_to_complete(warp(), mask)) {
    path_hash = 0;
  } else {
    wait();
  }
  return me.value;
}

/// Completes a collective if every lane that it needs is there.
bool BlockRunner::try_to_complete(int warp_number, std::uint32_t mask) {
  Warp& warp = warps_[warp_number];
  const std::uint32_t needed = mask & warp.exists & ~warp.returned;
  if ((warp.in_collective & needed) != needed) return false;
  // A lane that waits with another mask may come to this collective later.
  for (std::uint32_t lanes = needed; lanes != 0; lanes &= lanes - 1) {
    if (thread_of(warp_number, std::countr_zero(lanes)).mask != mask) return false;
  }

  const int first_lane = std::countr_zero(needed);
  const Thread& first = thread_of(warp_number, first_lane);
  std::array<std::uint32_t, kWarpThreads> values{};
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    if ((needed >> lane & 1) == 0) continue;
    const Thread& thread = thread_of(warp_number, lane);
    values[lane] = thread.value;
    if (thread.kind != first.kind || !is_same_call(thread.location, first.location)) {
      report_collective_mismatch(warp_number, lane, first_lane);
      stop();
    }
  }
  if ((mask & warp.returned) != 0 && first.kind == Collective::shuffle) {
    const std::uint32_t gone = mask & warp.returned;
    report(
        mistakes::kReturnedLanes, first.location,
        {lanes_of(gone), warp_number, std::popcount(gone) == 1 ? "has" : "have"},
        warp_number * kWarpThreads + first_lane);
  }

  Lanes sources{};
  std::uint32_t ballot = 0;
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    if ((needed >> lane & 1) != 0 && values[lane] != 0) ballot |= 1u << lane;
  }
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    if ((needed >> lane & 1) == 0) continue;
    Thread& thread = thread_of(warp_number, lane);
    path_hash_of(warp_number, lane) = 0;
    if (thread.kind == Collective::ballot) thread.value = ballot;
    if (thread.kind == Collective::exchange) {
      thread.value = needed;
      *thread.all = values;
    }
    if (thread.kind == Collective::shuffle) {
      sources[lane] = static_cast<std::uint32_t>(thread.source);
      if ((needed >> thread.source & 1) != 0) {
        thread.value = values[thread.source];
      } else {
        report(
            mistakes::kAbsentSource, thread.location, {lane, warp_number, thread.source},
            warp_number * kWarpThreads + lane);
      }
    }
  }
  if (first.kind == Collective::shuffle) {
    observer().shuffled(first.location, warp_number, needed, values, sources);
  }
  observer().collective_done(first.kind, warp_number, needed, first.location);
  warp.in_collective &= ~needed;
  warp.ready |= needed;
  return true;
}

void BlockRunner::report_collective_mismatch(int warp, int lane, int first_lane) {
  const Thread& thread = thread_of(warp, lane);
  const Thread& first = thread_of(warp, first_lane);
  report(
      mistakes::kOtherCollective, thread.location,
      {lane, warp, first_lane, name_of(first.kind, first.location), mask_text(first.mask),
       first.location, name_of(thread.kind, thread.location), mask_text(thread.mask)},
      warp * kWarpThreads + lane);
}

/// Deadlock: no thread is ready. A lane waits in a collective, as the last thread at a barrier
/// releases it.
void BlockRunner::report_deadlock() {
  int waiting = 0;
  while ((warps_[waiting / kWarpThreads].in_collective >> waiting % kWarpThreads & 1) == 0)
    ++waiting;
  const Thread& thread = all_[waiting];
  const int warp = waiting / kWarpThreads;
  const int own_lane = waiting % kWarpThreads;
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    const bool is_there = (thread.mask & warps_[warp].in_collective) >> lane & 1;
    if (is_there && thread_of(warp, lane).mask != thread.mask) {
      return report_collective_mismatch(warp, lane, own_lane);
    }
  }
  // The lanes that it waits for are at the barrier, or in a collective that waits for others.
  const std::uint32_t missing = thread.mask & warps_[warp].at_barrier;
  std::vector<FormatArg> args = {
      own_lane, warp, name_of(thread.kind),
      lanes_of(missing != 0 ? missing : thread.mask & ~(1u << own_lane)),
      std::popcount(missing) == 1 ? "arrives" : "arrive"};
  if (missing == 0) return report(mistakes::kDeadlock, thread.location, args, waiting);
  args.insert(args.end(), {std::countr_zero(missing), barrier_.location});
  report(mistakes::kDeadlockAtBarrier, thread.location, args, waiting);
}

}  // namespace rmsnorm::cpu_device
