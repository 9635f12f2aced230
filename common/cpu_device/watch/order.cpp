#include "common/cpu_device/watch/order.hpp"

#include <algorithm>

namespace rmsnorm::cpu_device {
namespace {

constexpr int kThreads = 1024;
constexpr int kLanes = 32;

}  // namespace

/// Every lane begins with step 1, of which no other lane knows.
Order::BlockState::BlockState() : step(kThreads), last_syncwarp(kThreads) {
  for (int thread = 0; thread < kThreads; ++thread) step[thread][thread % kLanes] = 1;
}

void Order::begin_block(int threads) {
  of_.threads = threads;
  of_.number = ++blocks_;
  of_.epoch = ++time_;
  for (Fences& fences : of_.fences) {
    if (fences.any) fences = {};
  }
  of_.acquired.clear();
}

void Order::barrier() {
  of_.epoch = ++time_;
  for (Fences& fences : of_.fences) fences.of_all = fences.of_all_next;
  if (of_.acquired.size() < 2) return;
  Releases all;  // now all threads know all of it
  for (const Acquired& known : of_.acquired) add(all, known.releases);
  of_.acquired = {{0, of_.acquired.front().at, std::move(all)}};
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
  for (Fences& fences : of_.fences) {
    if (scope == Scope::block && &fences == &of_.fences[static_cast<int>(Scope::device)]) continue;
    fences.any = true;
    fences.last.resize(of_.threads);
    fences.last[thread] = time_;
    fences.of_all_next = of_.epoch - 1;
  }
  ++time_;
}

void Order::arrive(int thread, bool is_ordered) {
  of_.arrived.resize(of_.threads);
  of_.arrived[thread] = is_ordered ? time_++ : 0;
}

void Order::release_arrivals(std::uintptr_t flag) {
  Releases& releases = flags_[flag];
  add(releases, {{of_.number, std::make_shared<const Release>(Release{of_.arrived, of_.arrived})}});
  for (const Acquired& known : of_.acquired) add(releases, known.releases);
}

/// Vector clock: up to which time what each thread did is behind a fence and before what `thread`
/// does now.
std::vector<std::uint32_t> Order::fenced(Scope scope, int thread) const {
  const Fences& fences = of_.fences[static_cast<std::size_t>(scope)];
  if (!fences.any) return {};
  const std::uint32_t own = fences.last[thread];
  const std::uint32_t of_all = own >= of_.epoch ? of_.epoch - 1 : fences.of_all;
  std::vector<std::uint32_t> until(of_.threads);
  for (int other = 0; other < of_.threads; ++other) {
    until[other] = std::max(of_all, std::min(fences.last[other], of_.epoch - 1));
    if (other / kLanes != thread / kLanes || of_.last_syncwarp[other] != of_.last_syncwarp[thread])
      continue;
    const std::uint32_t met = of_.last_syncwarp[thread] == 0 ? 0 : of_.last_syncwarp[thread] - 1;
    until[other] = std::max(until[other], own > met ? met : std::min(fences.last[other], met));
  }
  until[thread] = own;
  return until;
}

void Order::add(Releases& all, const Releases& more) {
  const auto later = [](std::vector<std::uint32_t> a, const std::vector<std::uint32_t>& b) {
    a.resize(std::max(a.size(), b.size()));
    for (std::size_t i = 0; i < b.size(); ++i) a[i] = std::max(a[i], b[i]);
    return a;
  };
  for (const auto& [block, release] : more) {
    std::shared_ptr<const Release>& known = all[block];
    if (known == release) continue;
    known = known == nullptr ? release
                             : std::make_shared<const Release>(Release{
                                   later(known->for_block, release->for_block),
                                   later(known->for_device, release->for_device)});
  }
}

void Order::release(std::uintptr_t flag, int thread, bool is_rmw) {
  const bool any = std::any_of(of_.fences.begin(), of_.fences.end(), [](auto& f) { return f.any; });
  if (!any && flags_.empty()) return;
  Releases& releases = flags_[flag];
  if (!is_rmw) releases.clear();
  if (!any) return;
  const Release own{fenced(Scope::block, thread), fenced(Scope::device, thread)};
  add(releases, {{of_.number, std::make_shared<const Release>(own)}});
  for (const Acquired& known : of_.acquired) {  // and what it has acquired itself
    if (is_before_in_block(known.at, thread)) add(releases, known.releases);
  }
}

void Order::acquire(std::uintptr_t flag, int thread) {
  const auto found = flags_.find(flag);
  if (found == flags_.end()) return;
  auto known =
      std::find_if(of_.acquired.begin(), of_.acquired.end(), [&](const Acquired& acquired) {
        return acquired.flag == flag && acquired.at.thread == thread;
      });
  if (known == of_.acquired.end()) {
    of_.acquired.push_back({flag, now(thread), found->second});
  } else {
    known->at = now(thread);
    add(known->releases, found->second);
  }
}

/// Whether what a thread has acquired then covers a timestamp.
bool Order::covers(const Acquired& known, const Timestamp& past, int thread) const {
  if (!is_before_in_block(known.at, thread)) return false;
  const auto found = known.releases.find(past.block);
  if (found == known.releases.end()) return false;
  const Release& release = *found->second;
  const auto& until = past.block == of_.number ? release.for_block : release.for_device;
  return !until.empty() && past.time <= until[past.thread];
}

bool Order::has_acquired(const Timestamp& past, int thread) const {
  const std::vector<Acquired>& acquired = of_.acquired;
  const std::size_t last = of_.last_hit;
  if (last < acquired.size() && covers(acquired[last], past, thread)) return true;
  const auto found = std::find_if(acquired.begin(), acquired.end(), [&](const Acquired& known) {
    return covers(known, past, thread);
  });
  of_.last_hit = found - acquired.begin();
  return found != acquired.end();
}

}  // namespace rmsnorm::cpu_device
