#include "common/cpu_device/watch/order.hpp"

#include <algorithm>
#include <utility>

namespace rmsnorm::cpu_device {
namespace {

constexpr int kThreads = 1024;
constexpr int kLanes = 32;

using Clock = std::vector<std::uint32_t>;
using Knowledge = std::map<std::uint32_t, std::shared_ptr<const Clock>>;

bool covers(const Knowledge& known, const Timestamp& past) {
  const auto found = known.find(past.block);
  return found != known.end() && !found->second->empty() &&
         past.time <= (*found->second)[past.thread];
}

/// Adds what `more` knows.
void add(Knowledge& all, const Knowledge& more) {
  for (const auto& [block, clock] : more) {
    std::shared_ptr<const Clock>& known = all[block];
    if (known == clock) continue;
    if (known == nullptr) {
      known = clock;
      continue;
    }
    Clock later = *known;
    later.resize(std::max(later.size(), clock->size()));
    for (std::size_t i = 0; i < clock->size(); ++i) later[i] = std::max(later[i], (*clock)[i]);
    known = std::make_shared<const Clock>(std::move(later));
  }
}

}  // namespace

/// Every lane begins with step 1, of which no other lane knows.
Order::BlockState::BlockState() : step(kThreads), last_syncwarp(kThreads), pending(kThreads) {
  for (int thread = 0; thread < kThreads; ++thread) step[thread][thread % kLanes] = 1;
}

void Order::begin_launch() {
  first_block_ = blocks_ + 1;
  flags_.clear();
  clusters_.clear();
}

void Order::begin_block(int threads, std::uint64_t cluster) {
  of_.threads = threads;
  of_.number = ++blocks_;
  of_.epoch = ++time_;
  clusters_.push_back(cluster);
  for (Fences& fences : of_.fences) {
    if (fences.any) fences = {};
  }
  of_.acquired.clear();
  if (std::exchange(of_.any_pending, false)) {
    for (std::vector<Pending>& pending : of_.pending) pending.clear();
  }
}

Scope Order::scope_with(std::uint32_t block) const {
  if (block == of_.number) return Scope::block;
  const std::uint64_t cluster = clusters_[block - first_block_];
  const bool is_of_cluster = cluster != 0 && cluster == clusters_[of_.number - first_block_];
  return is_of_cluster ? Scope::cluster : Scope::device;
}

/// Now all threads know all that one of them knows.
void Order::barrier() {
  for (int thread = 0; of_.any_pending && thread < of_.threads; ++thread) {
    for (Pending& pending : of_.pending[thread]) {
      if (!pending.is_open || !pending.is_atomic) continue;
      for (const Knowledge& known : pending.at_distance)
        know(pending.flag, thread, known, pending.pc);
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
      add(alike->known, acquired.known);
    }
  }
  of_.acquired = std::move(merged);
}

void Order::sync_warp(int warp, std::uint32_t lanes) {
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
  for (std::size_t i = 0; i <= static_cast<std::size_t>(scope); ++i) {
    Fences& fences = of_.fences[i];
    fences.any = true;
    fences.last.resize(of_.threads);
    fences.last[thread] = time_;
    fences.of_all_next = of_.epoch - 1;
  }
  for (Pending& pending : of_.pending[thread]) {
    if (!pending.is_open) continue;
    pending.is_open = false;
    for (std::size_t i = 0; i < kScopes; ++i) {
      if (i > static_cast<std::size_t>(scope)) {
        pending.is_open = pending.is_open || !pending.at_distance[i].empty();
        continue;
      }
      know(pending.flag, thread, pending.at_distance[i], nullptr);
      pending.at_distance[i].clear();
    }
  }
  ++time_;
}

void Order::arrive(int thread, bool is_ordered) {
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
  ++state->version;
  return *state;
}

std::shared_ptr<const Order::Flag> Order::flag(std::uintptr_t number) const {
  const auto found = flags_.find(number);
  return found == flags_.end() ? nullptr : found->second;
}

void Order::release_arrivals(std::uintptr_t flag) {
  Knowledge known{{of_.number, std::make_shared<const Clock>(of_.arrived)}};
  for (const Acquired& acquired : of_.acquired) add(known, acquired.known);
  Release release;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(Scope::cluster); ++i) release[i] = known;
  changed(flag).releases[of_.number] = std::make_shared<const Release>(std::move(release));
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

void Order::release(const FlagAccess& access) {
  const bool any = access.is_ordered || of_.fences[0].any;
  if (!any && flags_.empty()) return;
  Flag& flag = changed(access.flag);
  if (!access.is_atomic) flag.releases.clear();
  if (!any) return;
  Release release;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(access.scope); ++i) {
    Clock until = fenced(static_cast<Scope>(i), access.thread, access.is_ordered);
    if (until.empty()) continue;
    for (const Acquired& acquired : of_.acquired) {  // before the fence
      if (acquired.at.time <= until[acquired.at.thread]) add(release[i], acquired.known);
    }
    const bool is_as_before =
        i > 0 && release[i - 1].contains(of_.number) && *release[i - 1][of_.number] == until;
    add(release[i], {{of_.number, is_as_before ? release[i - 1][of_.number]
                                               : std::make_shared<const Clock>(std::move(until))}});
  }
  if (access.is_ordered) ++time_;
  std::shared_ptr<const Release>& known = flag.releases[of_.number];
  if (known != nullptr) {
    for (std::size_t i = 0; i < kScopes; ++i) add(release[i], (*known)[i]);
  }
  known = std::make_shared<const Release>(std::move(release));
}

/// A thread of the running block knows this from now on.
void Order::know(std::uintptr_t flag, int thread, const Knowledge& known, const void* noted) {
  if (known.empty()) return;
  const auto own = std::ranges::find_if(of_.acquired, [&](const Acquired& acquired) {
    return acquired.flag == flag && acquired.at.thread == thread &&
           (acquired.noted == nullptr) == (noted == nullptr);
  });
  if (own == of_.acquired.end()) {
    of_.acquired.push_back({flag, now(thread), known, noted});
  } else {
    own->at = now(thread);
    add(own->known, known);
  }
}

void Order::acquire(const FlagAccess& access, const std::shared_ptr<const Flag>& state) {
  if (state == nullptr) return;
  std::vector<Pending>& all = of_.pending[access.thread];
  auto pending = std::ranges::find(all, access.flag, &Pending::flag);
  if (pending == all.end()) {
    all.push_back({.flag = access.flag, .at = {}, .at_distance = {}, .too_narrow = {}});
    pending = all.end() - 1;
    of_.any_pending = true;
  }
  if (pending->version == state->version && !access.is_ordered) return;  // polled once more
  pending->version = state->version;
  pending->at = now(access.thread);
  pending->pc = access.pc;
  pending->is_atomic = access.is_atomic;
  for (const auto& [block, release] : state->releases) {
    const Scope scope = scope_with(block);
    const auto distance = static_cast<std::size_t>(scope);
    const bool is_reached = scope <= access.scope;
    if (is_reached && access.is_ordered) {
      know(access.flag, access.thread, (*release)[distance], nullptr);
    } else if (is_reached) {
      add(pending->at_distance[distance], (*release)[distance]);
      pending->is_open = true;
    }
    if (!is_reached || (*release)[distance] != (*release)[0])
      add(pending->too_narrow, (*release)[0]);
  }
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
  for (int other = 0; of_.any_pending && other < of_.threads; ++other) {
    for (const Pending& pending : of_.pending[other]) {
      if (!is_before_in_block(pending.at, thread)) continue;
      const bool is_fence = std::ranges::any_of(pending.at_distance, [&](const Knowledge& known) {
        return cpu_device::covers(known, past);
      });
      if (is_fence) return {Gap::Kind::fence, pending.pc};
      if (cpu_device::covers(pending.too_narrow, past)) return {Gap::Kind::scope, pending.pc};
    }
  }
  return {};
}

}  // namespace rmsnorm::cpu_device
