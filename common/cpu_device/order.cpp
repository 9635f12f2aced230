#include "common/cpu_device/order.hpp"

#include <algorithm>

namespace rmsnorm::cpu_device {
namespace {

constexpr int kThreads = 1024;
constexpr int kLanes = 32;

}  // namespace

/// Every lane begins with step 1, of which no other lane knows.
Order::Order() : step_(kThreads), warp_met_(kThreads) {
  for (int thread = 0; thread < kThreads; ++thread) step_[thread][thread % kLanes] = 1;
}

void Order::begin_launch() {
  first_block_ = block_ + 1;
  flags_.clear();
}

void Order::begin_block(int threads) {
  threads_ = threads;
  ++block_;
  epoch_ = ++time_;
  for (Fences& fences : fences_) {
    if (fences.any) fences = {};
  }
  learnt_.clear();
}

void Order::barrier() {
  epoch_ = ++time_;
  for (Fences& fences : fences_) fences.of_all = fences.of_all_next;
}

void Order::sync_warp(int warp, std::uint32_t lanes) {
  ++time_;
  std::array<std::uint32_t, kLanes> latest{};
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const auto& step = step_[warp * kLanes + lane];
    for (int i = 0; i < kLanes; ++i) latest[i] = std::max(latest[i], step[i]);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const int thread = warp * kLanes + lane;
    step_[thread] = latest;
    ++step_[thread][lane];  // a new step, which the others know nothing of
    warp_met_[thread] = time_;
  }
}

void Order::fence(int thread, Scope scope) {
  for (Fences& fences : fences_) {
    if (scope == Scope::block && &fences == &fences_[static_cast<int>(Scope::device)]) continue;
    fences.any = true;
    fences.last.resize(threads_);
    fences.last[thread] = time_;
    fences.of_all_next = epoch_ - 1;
  }
  ++time_;
}

/// Up to which time what each thread did is behind a fence and before what `thread` does now.
std::vector<std::uint32_t> Order::fenced(const Fences& fences, int thread) const {
  if (!fences.any) return {};
  const std::uint32_t own = fences.last[thread];
  const std::uint32_t of_all = own >= epoch_ ? epoch_ - 1 : fences.of_all;
  std::vector<std::uint32_t> until(threads_);
  for (int other = 0; other < threads_; ++other) {
    until[other] = std::max(of_all, std::min(fences.last[other], epoch_ - 1));
    if (other / kLanes != thread / kLanes || warp_met_[other] != warp_met_[thread]) continue;
    const std::uint32_t met = warp_met_[thread] == 0 ? 0 : warp_met_[thread] - 1;
    until[other] = std::max(until[other], own > met ? met : std::min(fences.last[other], met));
  }
  until[thread] = own;
  return until;
}

void Order::publish(std::uintptr_t flag, int thread, bool is_chain) {
  const bool any = std::any_of(fences_.begin(), fences_.end(), [](auto& f) { return f.any; });
  if (!any && flags_.empty()) return;
  std::shared_ptr<Flag>& releases = flags_[flag];
  if (!is_chain || releases == nullptr) releases = std::make_shared<Flag>();
  for (const Learnt& known : learnt_) {  // and what it has learnt itself
    if (known.flag == releases || !is_before_in_block(known.at, thread)) continue;
    for (std::size_t i = 0; any && i < known.releases; ++i) releases->push_back((*known.flag)[i]);
  }
  if (!any) return;
  releases->push_back(std::make_shared<Release>(
      block_, fenced(fences_[static_cast<int>(Scope::block)], thread),
      fenced(fences_[static_cast<int>(Scope::device)], thread)));
}

void Order::acquire(std::uintptr_t flag, int thread) {
  const auto found = flags_.find(flag);
  if (found == flags_.end()) return;
  for (Learnt& known : learnt_) {
    if (known.flag != found->second || known.at.thread != thread) continue;
    if (known.releases == found->second->size()) return;  // it asks again and again
  }
  learnt_.push_back({found->second, found->second->size(), now(thread)});
}

bool Order::has_learnt(const Moment& past, int thread) const {
  for (const Learnt& known : learnt_) {
    if (!is_before_in_block(known.at, thread)) continue;
    for (std::size_t i = 0; i < known.releases; ++i) {
      const Release& release = *(*known.flag)[i];
      if (release.block != past.block) continue;
      const auto& until = past.block == block_ ? release.for_block : release.for_device;
      if (!until.empty() && past.time <= until[past.thread]) return true;
    }
  }
  return false;
}

}  // namespace rmsnorm::cpu_device
