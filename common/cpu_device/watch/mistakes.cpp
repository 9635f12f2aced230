/// \file
/// What is a mistake of a strong access or a race, and the messages about all.

#include <fmt/args.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/scheduler/async_copy.hpp"
#include "common/cpu_device/scheduler/grid.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"
#include "common/cpu_device/watch/watcher.hpp"

namespace rmsnorm::cpu_device {
namespace {

template <class Value>  // of a Where or a FormatArg
SourceLine line_at(const Value& where) {
  if (const auto* location = std::get_if<SourceLocation>(&where)) return line_of(*location);
  return line_of_call(std::get<const void*>(where));
}

bool is_place(const FormatArg& word) {
  return std::holds_alternative<SourceLocation>(word.value) ||
         std::holds_alternative<const void*>(word.value);
}

std::string text_of(const FormatArg& word) {
  if (is_place(word)) return place_text(line_at(word.value));
  if (const auto* text = std::get_if<std::string>(&word.value)) return *text;
  return fmt::format("{}", std::get<std::int64_t>(word.value));
}

/// A part of a sentence with these arguments.
std::string worded(const char* text, const std::vector<FormatArg>& args) {
  fmt::dynamic_format_arg_store<fmt::format_context> all;
  for (const FormatArg& word : args) all.push_back(text_of(word));
  return fmt::vformat(text, all);
}

/// The lines of two calls.
struct LinePair {
  SourceLine first;   ///< of the one arrival
  SourceLine second;  ///< of the other
};

/// The reader's lines of calls from number `begin` on.
std::vector<SourceLine> lines_from(std::size_t begin, const Arrival& arrival) {
  std::vector<SourceLine> lines;
  for (std::size_t i = begin; i < arrival.calls.size() && arrival.calls[i] != nullptr; ++i) {
    const std::vector<SourceLine>& more = user_lines(arrival.calls[i]);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

/// Where two arrivals diverge: the lines of the barriers or, if these are the same, of the
/// innermost calls that are not. Compilers copy code, so other addresses are not yet another
/// place.
std::optional<LinePair> difference(const Arrival& first, const Arrival& second) {
  if (!is_same_line(first.location, second.location)) {
    return LinePair{line_of(first.location), line_of(second.location)};
  }
  const auto same = std::ranges::mismatch(first.calls, second.calls).in1 - first.calls.begin();
  const std::vector<SourceLine> ours = lines_from(static_cast<std::size_t>(same), first);
  const std::vector<SourceLine> others = lines_from(static_cast<std::size_t>(same), second);
  const auto [our, other] = std::ranges::mismatch(ours, others);
  // Behind the kernel, and where the compiler has lost a line, nothing can be told.
  if (our == ours.end() || other == others.end() || our->line == 0 || other->line == 0) return {};
  return LinePair{*our, *other};
}

}  // namespace

Hazard Watcher::hazard_of(
    const Mistake& what, const SourceLine& line, int thread,
    const std::vector<FormatArg>& args) const {
  Hazard hazard = hazard_of_host(what, line, args);
  hazard.kernel = name_of_function(kernel_);
  hazard.block = running->block_index();
  hazard.thread = running->index_of(thread);
  return hazard;
}

Hazard Watcher::hazard_of_host(
    const Mistake& what, const SourceLine& line, const std::vector<FormatArg>& args) const {
  return {
      .file = line.file,
      .line = line.line,
      .what = worded(what.what, args),
      .advice = worded(what.advice, args),
      .kernel = {},
      .block = {},
      .thread = {},
      .is_symptom = what.is_symptom};
}

void Watcher::mistake(
    const Mistake& what, const Where& where, int thread, const std::vector<FormatArg>& args) {
  const NotWatching guard;
  const SourceLine line = line_at(where);
  std::string key = fmt::format("{} {}", fmt::ptr(&what), place_text(line));
  for (const FormatArg& word : args) {
    if (is_place(word)) key += " " + text_of(word);
  }
  hazards_.add(key, [&] { return hazard_of(what, line, thread, args); });
}

void Watcher::barrier_mismatch(
    const Arrival& own, const Arrival& of_other, int other, bool is_named) {
  const NotWatching guard;
  const auto lines = difference(own, of_other);
  if (!lines) return;
  const std::string here = place_text(lines->first);
  const std::string there = place_text(lines->second);
  hazards_.add("barriers " + here + there, [&] {
    const SourceLine line = line_of(own.location);
    const int thread = running->current();
    if (is_same_line(own.location, of_other.location)) {
      return hazard_of(
          is_named ? mistakes::kOtherCallOfNamedBarrier : mistakes::kOtherCallOfBarrier, line,
          thread, {thread, here, other, there});
    }
    return hazard_of(
        is_named ? mistakes::kOtherNamedBarrier : mistakes::kOtherBarrier, line, thread,
        {thread, other, there});
  });
}

void Watcher::mistake_of_host(
    const Mistake& what, const std::vector<const void*>& backtrace,
    const std::vector<FormatArg>& args) {
  const SourceLine line = user_line(backtrace);
  hazards_.add(
      fmt::format("{} {} {}", fmt::ptr(&what), worded(what.what, args), place_text(line)),
      [&] { return hazard_of_host(what, line, args); });
}

std::string Watcher::crash(
    int signal, const void* address, const std::vector<const void*>& backtrace, bool is_in_kernel) {
  const SourceLine line = user_line(backtrace);
  const int thread = is_in_kernel ? running->current() : 0;
  const std::string who = is_in_kernel ? fmt::format("thread {}", thread) : "the host's code";
  const auto text = [&](const Mistake& what, const std::vector<FormatArg>& args) {
    return (is_in_kernel ? hazard_of(what, line, thread, args) : hazard_of_host(what, line, args))
        .text();
  };
  if (signal == SIGFPE) return text(mistakes::kCrashDivision, {who});
  if (signal != SIGSEGV && signal != SIGBUS) return text(mistakes::kCrashInstruction, {who});
  if (reinterpret_cast<std::uintptr_t>(address) < kNullBytes) {
    return text(mistakes::kCrashNull, {who});
  }
  if (is_in_kernel && running->stacks().contains(address)) {
    return text(mistakes::kCrashStack, {who, kStackBytes >> 10});
  }
  return text(mistakes::kCrashAddress, {who});
}

// Strong accesses, and what is a race.

/// A number for the flag at an address: shared memory has the same addresses in every block.
std::uintptr_t Watcher::flag_at(const void* address) const {
  constexpr int kAddressBits = 47;
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  if (!running->shared().contains(address)) return number;
  if (Cluster* const cluster = grid_.cluster(); cluster != nullptr) {  // as others see it
    return reinterpret_cast<std::uintptr_t>(
        cluster->memory(grid_.rank()) + running->shared().offset_of(address) -
        SharedMemory::kFirstByte);
  }
  return number ^ std::uintptr_t{order_.now(0).block} << kAddressBits;
}

/// A strong access acquires from its flag, or releases to it. In every other order of the blocks,
/// loads see old values.
void Watcher::strong_access(const Access& access) {
  const int thread = running->current();
  FlagAccess flag{flag_at(access.address), thread, access.strength.scope};
  flag.pc = access.pc;
  flag.is_atomic = access.kind == AccessKind::atomic;
  flag.is_ordered = access.strength.acquires;
  if (access.kind == AccessKind::load) {
    polls_ = polls_ || !access.is_bulk;
    const bool sees_old = sees_old_values() && !access.is_bulk;
    const OldValues::Word* const old =
        sees_old ? old_values_.load(order_, flag.flag, access, thread) : nullptr;
    if (old == nullptr) return order_.acquire(flag);
    order_.acquire(flag, old->flag_before);
    const SourceLine line = line_of_call(access.pc);
    old_loads_.add("old " + place_text(line), [&] {
      return hazard_of(mistakes::kOldValue, line, thread, {thread, FormatArg::of_call(old->pc)});
    });
  } else if (access.kind == AccessKind::atomic) {
    order_.acquire(flag);  // and it releases if it changes anything: atomic_changes()
  } else {
    release(access);
  }
}

/// The running thread is about to change a flag.
void Watcher::release(const Access& access) {
  const int thread = running->current();
  FlagAccess flag{flag_at(access.address), thread, access.strength.scope};
  flag.is_atomic = access.kind == AccessKind::atomic;
  flag.is_ordered = access.strength.releases;
  if (sees_old_values()) old_values_.store(order_, flag.flag, access, thread);
  order_.release(flag);
}

void Watcher::atomic_changes(const Access& access) {
  if (!in_watched_kernel || in_host_code_ || running->stacks().contains(access.address)) return;
  const NotWatching guard;
  if (!grid_.sampler().is_on()) release(access);
}

/// The access as the shadow has it.
PastAccess Watcher::past_of(const Access& access) {
  const int thread = running->current();
  if (access.is_strong) {
    strong_access(access);
  } else if (access.kind == AccessKind::store && sees_old_values()) {
    old_values_.store(order_, flag_at(access.address), access, thread);
  }
  PastAccess past{order_.now(thread)};
  past.is_strong = access.is_strong;
  past.scope = access.strength.scope;
  past.is_volatile = access.is_strong && access.strength.is_volatile;
  past.kind = access.kind;
  past.pc = access.pc;
  return past;
}

/// Race with an earlier access; of two stores, it depends on their values.
void Watcher::found_race(
    const Access& access, const PastAccess& other, std::string element, bool is_shared) {
  const int thread = running->current();
  const Race race{access, thread, other, is_shared, std::move(element), order_.gap(other, thread)};
  if (access.kind != AccessKind::store || other.kind != AccessKind::store) return report(race);
  pending_store_ = {race, {}};
  std::memcpy(
      pending_store_->before.data(), access.address,
      std::min(pending_store_->before.size(), static_cast<std::size_t>(access.bytes)));
}

/// Of an element of shared or of global memory.
void Watcher::report(
    const Finding& finding, const Access& access, const std::string& element, bool is_shared) {
  if (finding.is_race) found_race(access, finding.other, element, is_shared);
  if (!finding.is_unwritten) return;
  if (const void* const copy = is_shared ? pending_copy(access.address) : nullptr) {
    return running->report(
        mistakes::kCopyUnderWay, access.pc,
        {running->current(), element, FormatArg::of_call(copy)});
  }
  running->report(
      is_shared ? mistakes::kUnwrittenShared : mistakes::kUnwrittenGlobal, access.pc,
      {running->current(), element});
}

/// Behind a load or a store. Of two stores, it is no race if both stored the same.
void Watcher::settle() {
  old_values_.restore();
  if (const void* const note = order_.take_note(); note != nullptr) {
    const SourceLine line = line_of_call(note);
    notes_.add("note " + place_text(line), [&] {
      return hazard_of_host(mistakes::kReliesOnBarrier, line, {});
    });
  }
  if (!pending_store_) return;
  const Access& access = pending_store_->race.access;
  const auto bytes =
      std::min(pending_store_->before.size(), static_cast<std::size_t>(access.bytes));
  if (std::memcmp(pending_store_->before.data(), access.address, bytes) != 0) {
    report(pending_store_->race);
  }
  pending_store_.reset();
}

/// Each is reported once for its lines.
void Watcher::report(const Race& race) {
  const SourceLine here = line_of_call(race.access.pc);
  const SourceLine there = line_of_call(race.other.pc);
  const AccessKind kind = race.access.kind;
  const AccessKind other = race.other.kind;
  const bool both_store = kind == AccessKind::store && other == AccessKind::store;
  const bool both_strong = race.access.is_strong && race.other.is_strong;
  const std::string key =
      "race " + place_text(std::min(here, there)) + place_text(std::max(here, there));
  hazards_.add(key, [&] {
    if (race.gap.kind != Order::Gap::Kind::none && !both_strong) {
      return hazard_of(
          race.gap.kind == Order::Gap::Kind::fence ? mistakes::kNoFenceBehind
                                                   : mistakes::kNarrowScope,
          here, race.thread,
          {verb(kind), race.element, verb(other), FormatArg::of_call(race.other.pc),
           FormatArg::of_call(race.gap.pc)});
    }
    if (race.other.block == order_.now(race.thread).block) {
      // Lanes that have met in a shuffle meet there, in a branch maybe, where no barrier may stand.
      const auto warp = static_cast<std::size_t>(race.thread / kWarpThreads);
      const bool is_of_warp = race.other.thread / kWarpThreads == race.thread / kWarpThreads &&
                              collectives_[warp] == order_.epoch();
      has_race_in_block_ = true;
      return hazard_of(
          both_store && here == there ? mistakes::kStoresInBlock
          : is_of_warp                ? mistakes::kRaceInWarp
                                      : mistakes::kRaceInBlock,
          here, race.thread,
          {race.thread, verb(kind), race.element, race.other.thread, verb(other),
           FormatArg::of_call(race.other.pc)});
    }
    return hazard_of(
        race.is_shared                ? mistakes::kRaceInCluster
        : both_strong                 ? mistakes::kAtomicOfBlock
        : both_store || here == there ? mistakes::kChangesOfBlocks  // a "+=" reads, too
                                      : mistakes::kRaceOfBlocks,
        here, race.thread,
        {verb(kind), race.element, verb(other), FormatArg::of_call(race.other.pc)});
  });
}

}  // namespace rmsnorm::cpu_device
