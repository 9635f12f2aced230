#include "common/cpu_device/watch/order.hpp"

#include <algorithm>
#include <utility>

namespace rmsnorm::cpu_device {
namespace {

constexpr int kThreads = 1024;
constexpr int kLanes = 32;
constexpr auto kDevice = static_cast<std::size_t>(Scope::device);

using Clock = std::vector<std::uint32_t>;
using Clocks = std::map<std::uint32_t, std::shared_ptr<const Clock>>;
using Knowledge = std::shared_ptr<const Clocks>;

bool covers(const Knowledge& known, const Timestamp& past) {
  if (known == nullptr) return false;
  const auto found = known->find(past.block);
  return found != known->end() && !found->second->empty() &&
         past.time <= (*found->second)[past.thread];
}

bool contains(const Clock& all, const Clock& part) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] > (i < all.size() ? all[i] : 0)) return false;
  }
  return true;
}

/// Whether all of `part` is known.
bool contains(const Knowledge& all, const Knowledge& part) {
  if (all == part || part == nullptr) return true;
  if (all == nullptr) return false;
  return std::ranges::all_of(*part, [&](const auto& of_block) {
    const auto found = all->find(of_block.first);
    return found != all->end() &&
           (found->second == of_block.second || contains(*found->second, *of_block.second));
  });
}

void add(Clocks& all, const Clocks& more) {
  for (const auto& [block, clock] : more) {
    std::shared_ptr<const Clock>& known = all[block];
    if (known == clock) continue;
    if (known == nullptr || contains(*clock, *known)) {
      known = clock;
      continue;
    }
    if (contains(*known, *clock)) continue;
    Clock later = *known;
    later.resize(std::max(later.size(), clock->size()));
    for (std::size_t i = 0; i < clock->size(); ++i) later[i] = std::max(later[i], (*clock)[i]);
    known = std::make_shared<const Clock>(std::move(later));
  }
}

/// What is known by both.
Knowledge join(const Knowledge& all, const Knowledge& more) {
  if (all == nullptr || all == more) return more;
  if (more == nullptr) return all;
  Clocks joined = *all;
  add(joined, *more);
  return std::make_shared<const Clocks>(std::move(joined));
}

}  // namespace

/// Every lane begins with step 1, of which no other lane knows.
Order::BlockState::BlockState() : step(kThreads), last_syncwarp(kThreads), reads(kThreads) {
  for (int thread = 0; thread < kThreads; ++thread) step[thread][thread % kLanes] = 1;
}

void Order::begin_launch(bool has_ranks) {
  first_block_ = blocks_ + 1;
  flags_.clear();
  groups_.clear();
  widest_ = has_ranks ? Scope::system : Scope::device;
}

void Order::begin_block(int threads, std::uint64_t cluster, int rank) {
  of_.threads = threads;
  of_.number = ++blocks_;
  of_.epoch = ++time_;
  const std::uint64_t of_cluster = cluster != 0 ? cluster : kNoCluster | of_.number;
  groups_.push_back({of_.number, of_cluster, static_cast<std::uint64_t>(rank), 0});
  for (Fences& fences : of_.fences) {
    if (fences.any) fences = {};
  }
  of_.acquired.clear();
  if (std::exchange(of_.any_read, false)) {
    for (std::vector<Read>& reads : of_.reads) reads.clear();
  }
}

Scope Order::scope_with(std::uint32_t block) const {
  std::size_t scope = 0;
  while (groups_of(block)[scope] != groups_of(of_.number)[scope]) ++scope;
  return static_cast<Scope>(scope);
}

/// Now all threads know all that one of them knows.
void Order::barrier() {
  ++changes_;
  for (int thread = 0; of_.any_read && thread < of_.threads; ++thread) {
    for (Read& read : of_.reads[thread]) {
      if (!read.is_open || !read.is_atomic || std::exchange(read.is_behind_barrier, true)) continue;
      const Scope scope = std::min(read.scope, Scope::device);  // no GPU promises it of others
      know(read.flag, thread, of(*read.state, scope), read.pc);
    }
  }
  of_.epoch = ++time_;
  for (Fences& fences : of_.fences) fences.of_all = fences.of_all_next;
  if (of_.acquired.size() < 2) return;
  std::vector<Acquired> merged;  // with a fence, and without
  for (Acquired& acquired : of_.acquired) {
    const auto alike = std::ranges::find_if(merged, [&](const Acquired& known) {
      return (known.noted == nullptr) == (acquired.noted == nullptr);
    });
    if (alike == merged.end()) {
      acquired.flag = 0;
      merged.push_back(std::move(acquired));
    } else {
      if (alike->at.time < acquired.at.time) alike->at = acquired.at;
      alike->known = join(alike->known, acquired.known);
    }
  }
  of_.acquired = std::move(merged);
}

void Order::sync_warp(int warp, std::uint32_t lanes) {
  ++changes_;
  ++time_;
  std::array<std::uint32_t, kLanes> latest{};
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const auto& step = of_.step[warp * kLanes + lane];
    for (int i = 0; i < kLanes; ++i) latest[i] = std::max(latest[i], step[i]);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const int thread = warp * kLanes + lane;
    of_.step[thread] = latest;
    ++of_.step[thread][lane];  // a new step, which the others know nothing of
    of_.last_syncwarp[thread] = time_;
  }
}

void Order::fence(int thread, Scope scope) {
  ++changes_;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(scope); ++i) {
    Fences& fences = of_.fences[i];
    fences.any = true;
    fences.last.resize(of_.threads);
    fences.last[thread] = time_;
    fences.of_all_next = of_.epoch - 1;
  }
  Knowledge acquired;
  for (Read& read : of_.reads[thread]) {
    if (!read.is_open) continue;
    acquired = join(acquired, of(*read.state, std::min(read.scope, scope)));
    read.is_open = scope < std::min(read.scope, widest_);
    read.is_fenced = true;
  }
  know(0, thread, acquired, nullptr);
  ++time_;
}

void Order::arrive(int thread, bool is_ordered) {
  ++changes_;
  of_.arrived.resize(of_.threads);
  of_.arrived[thread] = is_ordered ? time_++ : 0;
}

/// The flag, to be changed: an older state that someone has taken stays as it is.
Order::Flag& Order::changed(std::uintptr_t flag) {
  std::shared_ptr<Flag>& state = flags_[flag];
  if (state == nullptr) {
    state = std::make_shared<Flag>();
  } else if (state.use_count() > 1) {
    state = std::make_shared<Flag>(*state);
  }
  return *state;
}

std::shared_ptr<const Order::Flag> Order::flag(std::uintptr_t number) const {
  const auto found = flags_.find(number);
  return found == flags_.end() ? nullptr : found->second;
}

/// What a thread releases: what its block's threads did up to these times, and knew.
Order::Knowledge Order::released(int thread, Clock until) const {
  Clocks known;
  const Clocks* last = nullptr;
  for (const Acquired& acquired : of_.acquired) {
    const bool is_known = acquired.at.thread == thread || is_before_in_block(acquired.at, thread);
    if (!is_known || acquired.at.time > until[acquired.at.thread]) continue;
    if (std::exchange(last, acquired.known.get()) != last) add(known, *acquired.known);
  }
  known[of_.number] = std::make_shared<const Clock>(std::move(until));
  return std::make_shared<const Clocks>(std::move(known));
}

void Order::release_arrivals(std::uintptr_t flag) {
  Clocks known;
  for (const Acquired& acquired : of_.acquired) add(known, *acquired.known);
  known[of_.number] = std::make_shared<const Clock>(of_.arrived);
  constexpr auto kCluster = static_cast<std::size_t>(Scope::cluster);
  Knowledge& of_cluster = changed(flag).of_group[kCluster][groups_of(of_.number)[kCluster]];
  of_cluster = join(of_cluster, std::make_shared<const Clocks>(std::move(known)));
}

/// Up to which time what each thread did is behind a fence, or a release, and before what `thread`
/// does now.
Order::Clock Order::fenced(Scope scope, int thread, bool is_ordered) const {
  const Fences& fences = of_.fences[static_cast<std::size_t>(scope)];
  if (!fences.any && !is_ordered) return {};
  const auto last = [&](int other) {
    return is_ordered && other == thread ? time_ : fences.any ? fences.last[other] : 0;
  };
  const std::uint32_t own = last(thread);
  const std::uint32_t of_all = own >= of_.epoch ? of_.epoch - 1 : fences.of_all;
  Clock until(of_.threads);
  for (int other = 0; other < of_.threads; ++other) {
    until[other] = std::max(of_all, std::min(last(other), of_.epoch - 1));
    if (other / kLanes != thread / kLanes || of_.last_syncwarp[other] != of_.last_syncwarp[thread])
      continue;
    const std::uint32_t met = of_.last_syncwarp[thread] == 0 ? 0 : of_.last_syncwarp[thread] - 1;
    until[other] = std::max(until[other], own > met ? met : std::min(last(other), met));
  }
  until[thread] = own;
  return until;
}

/// Null: nothing.
Order::Knowledge Order::released_to(Scope scope, const FlagAccess& access) {
  const auto find = [&]() -> Knowledge {
    Clock until = fenced(scope, access.thread, access.is_ordered);
    return until.empty() ? nullptr : released(access.thread, std::move(until));
  };
  if (access.is_ordered) return find();
  const auto i = static_cast<std::size_t>(scope);
  LastReleased& last = last_released_;
  const bool is_same =
      last.block == of_.number && last.thread == access.thread && last.changes == changes_;
  if (!is_same) last = {of_.number, access.thread, changes_, {}, {}};
  if (!last.is_known[i]) last.known[i] = find();
  last.is_known.set(i);
  return last.known[i];
}

void Order::release(const FlagAccess& access) {
  const bool any = access.is_ordered || of_.fences[0].any;
  if (!any && flags_.empty()) return;
  Flag& flag = changed(access.flag);
  const Timestamp now = this->now(access.thread);
  // A store ends what others have released there; what its own thread has stays.
  const bool is_own = flag.writer.block == now.block && flag.writer.thread == now.thread;
  if (!access.is_atomic && !is_own) flag = {};
  flag.writer = now;
  if (!any) return;
  Knowledge wider;  // what is released to the next scope
  for (auto i = static_cast<std::size_t>(std::min(access.scope, widest_)) + 1; i-- > 0;) {
    if (static_cast<Scope>(i) == Scope::cluster && !has_cluster()) continue;
    const Knowledge now_released = released_to(static_cast<Scope>(i), access);
    if (now_released == nullptr || (wider != nullptr && contains(wider, now_released))) continue;
    wider = now_released;
    Knowledge& known = flag.of_group[i][groups_of(of_.number)[std::min(i, kDevice)]];
    known = join(known, now_released);
  }
  if (access.is_ordered) ++time_;
}

/// What a thread of the running block learns from a flag, if it reads it in this scope.
Order::Knowledge Order::of(const Flag& flag, Scope scope) const {
  Knowledge known;
  for (std::size_t i = 0; i < kScopes; ++i) {
    if (static_cast<Scope>(i) == Scope::system && scope == Scope::system) {
      for (const auto& [rank, of_rank] : flag.of_group[i]) known = join(known, of_rank);
      break;
    }
    // Of a wider scope, it is also for the reader if the writer is in the reader's scope.
    const bool is_wider = std::min(i, kDevice) > static_cast<std::size_t>(scope);
    if (is_wider && (flag.writer.block == 0 || scope_with(flag.writer.block) > scope)) break;
    const auto own = flag.of_group[i].find(groups_of(of_.number)[std::min(i, kDevice)]);
    if (own != flag.of_group[i].end()) known = join(known, own->second);
  }
  return known;
}

/// A thread of the running block knows this from now on. What it knew before stays with the moment
/// since when others may rely on it.
void Order::know(std::uintptr_t flag, int thread, const Knowledge& known, const void* noted) {
  if (known == nullptr) return;
  ++changes_;
  const std::uint32_t fence = of_.fences[0].any ? of_.fences[0].last[thread] : 0;
  Acquired* own = nullptr;
  for (Acquired& acquired : of_.acquired) {
    if (acquired.at.thread != thread || (acquired.noted == nullptr) != (noted == nullptr)) continue;
    if (acquired.flag != flag && acquired.flag != 0) continue;
    if (contains(acquired.known, known)) return;
    const bool is_relied_on = acquired.at.time < of_.epoch || acquired.at.time <= fence ||
                              acquired.at.time <= of_.last_syncwarp[thread];
    if (acquired.flag == flag && !is_relied_on) own = &acquired;
  }
  if (own == nullptr) {
    of_.acquired.push_back({flag, now(thread), known, noted});
  } else {
    own->at = now(thread);
    own->known = join(own->known, known);
  }
}

void Order::acquire(const FlagAccess& access, const std::shared_ptr<const Flag>& state) {
  if (state == nullptr) return;
  std::vector<Read>& all = of_.reads[access.thread];
  auto read = std::ranges::find(all, access.flag, &Read::flag);
  if (read == all.end()) {
    all.push_back({.flag = access.flag, .state = nullptr});
    read = all.end() - 1;
    of_.any_read = true;
  }
  const bool says_more = access.scope > read->scope || (access.is_ordered && read->is_open);
  if (read->state == state && !read->is_open && !says_more) return;  // polled once more
  *read = {access.flag,       state, access.scope, now(access.thread), access.pc, access.is_atomic,
           !access.is_ordered};
  if (access.is_ordered) know(access.flag, access.thread, of(*state, access.scope), nullptr);
}

/// Whether what a thread has acquired covers a timestamp.
bool Order::covers(const Acquired& acquired, const Timestamp& past, int thread) const {
  return is_before_in_block(acquired.at, thread) && cpu_device::covers(acquired.known, past);
}

bool Order::has_acquired(const Timestamp& past, int thread) const {
  const std::vector<Acquired>& all = of_.acquired;
  const std::size_t last = of_.last_hit;
  if (last < all.size() && all[last].noted == nullptr && covers(all[last], past, thread))
    return true;
  const void* noted = nullptr;
  for (const Acquired& acquired : all) {
    if (!covers(acquired, past, thread)) continue;
    noted = acquired.noted;
    if (noted != nullptr) continue;
    of_.last_hit = static_cast<std::size_t>(&acquired - all.data());
    return true;
  }
  if (noted != nullptr) note_ = noted;
  return noted != nullptr;
}

Order::Gap Order::gap(const Timestamp& past, int thread) const {
  for (int other = 0; of_.any_read && other < of_.threads; ++other) {
    for (const Read& read : of_.reads[other]) {
      if (!is_before_in_block(read.at, thread)) continue;
      const Flag& flag = *read.state;
      if (read.is_open && cpu_device::covers(of(flag, read.scope), past))
        return {read.is_fenced ? Gap::Kind::scope : Gap::Kind::fence, read.pc};
      const auto has = [&](const auto& of_some) {
        return cpu_device::covers(of_some.second, past);
      };
      const bool is_narrow = std::ranges::any_of(
          flag.of_group, [&](const auto& groups) { return std::ranges::any_of(groups, has); });
      if (is_narrow) return {Gap::Kind::scope, read.pc};
    }
  }
  return {};
}

}  // namespace rmsnorm::cpu_device
