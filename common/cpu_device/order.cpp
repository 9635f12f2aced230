#include "common/cpu_device/order.hpp"

#include <algorithm>

namespace rmsnorm::cpu_device {
namespace {

constexpr int kThreads = 1024;
constexpr int kLanes = 32;

}  // namespace

/// Every lane begins with step 1, of which no other lane knows.
Order::OfBlock::OfBlock() : step(kThreads), warp_met(kThreads) {
  for (int thread = 0; thread < kThreads; ++thread) step[thread][thread % kLanes] = 1;
}

void Order::begin_block(int threads) {
  of_.threads = threads;
  of_.number = ++blocks_;
  of_.epoch = ++time_;
  for (Fences& fences : of_.fences) {
    if (fences.any) fences = {};
  }
  of_.learnt.clear();
}

void Order::barrier() {
  of_.epoch = ++time_;
  for (Fences& fences : of_.fences) fences.of_all = fences.of_all_next;
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
    of_.warp_met[thread] = time_;
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

/// Up to which time what each thread did is behind a fence and before what `thread` does now.
std::vector<std::uint32_t> Order::fenced(const Fences& fences, int thread) const {
  if (!fences.any) return {};
  const std::uint32_t own = fences.last[thread];
  const std::uint32_t of_all = own >= of_.epoch ? of_.epoch - 1 : fences.of_all;
  std::vector<std::uint32_t> until(of_.threads);
  for (int other = 0; other < of_.threads; ++other) {
    until[other] = std::max(of_all, std::min(fences.last[other], of_.epoch - 1));
    if (other / kLanes != thread / kLanes || of_.warp_met[other] != of_.warp_met[thread]) continue;
    const std::uint32_t met = of_.warp_met[thread] == 0 ? 0 : of_.warp_met[thread] - 1;
    until[other] = std::max(until[other], own > met ? met : std::min(fences.last[other], met));
  }
  until[thread] = own;
  return until;
}

void Order::publish(std::uintptr_t flag, int thread, bool is_chain) {
  const bool any = std::any_of(of_.fences.begin(), of_.fences.end(), [](auto& f) { return f.any; });
  if (!any && flags_.empty()) return;
  std::shared_ptr<Flag>& releases = flags_[flag];
  if (!is_chain || releases == nullptr) releases = std::make_shared<Flag>();
  for (const Learnt& known : of_.learnt) {  // and what it has learnt itself
    if (known.flag == releases || !is_before_in_block(known.at, thread)) continue;
    for (std::size_t i = 0; any && i < known.releases; ++i) releases->push_back((*known.flag)[i]);
  }
  if (!any) return;
  releases->push_back(std::make_shared<Release>(
      of_.number, fenced(of_.fences[static_cast<int>(Scope::block)], thread),
      fenced(of_.fences[static_cast<int>(Scope::device)], thread)));
}

void Order::acquire(std::uintptr_t flag, int thread) {
  const auto found = flags_.find(flag);
  if (found == flags_.end()) return;
  for (Learnt& known : of_.learnt) {
    if (known.flag != found->second || known.at.thread != thread) continue;
    if (known.releases == found->second->size()) return;  // it asks again and again
  }
  of_.learnt.push_back({found->second, found->second->size(), now(thread)});
}

bool Order::has_learnt(const Moment& past, int thread) const {
  for (const Learnt& known : of_.learnt) {
    if (!is_before_in_block(known.at, thread)) continue;
    for (std::size_t i = 0; i < known.releases; ++i) {
      const Release& release = *(*known.flag)[i];
      if (release.block != past.block) continue;
      const auto& until = past.block == of_.number ? release.for_block : release.for_device;
      if (!until.empty() && past.time <= until[past.thread]) return true;
    }
  }
  return false;
}

}  // namespace rmsnorm::cpu_device
