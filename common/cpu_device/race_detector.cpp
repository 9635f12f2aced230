#include "common/cpu_device/race_detector.hpp"

#include <algorithm>

namespace rmsnorm::cpu_device {
namespace {

constexpr int kThreads = 1024;
constexpr std::size_t kWordBytes = 4;

}  // namespace

/// Every lane begins with step 1, of which no other lane knows.
std::vector<std::array<std::uint32_t, 32>> RaceDetector::fresh_clocks() {
  std::vector<std::array<std::uint32_t, 32>> clocks(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) clocks[thread][thread % 32] = 1;
  return clocks;
}

void RaceDetector::begin_block() {
  ++block_;
  ++epoch_;
}

void RaceDetector::barrier() {
  ++epoch_;
}

void RaceDetector::sync_warp(int warp, std::uint32_t lanes) {
  std::array<std::uint32_t, 32> latest{};
  for (int lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const auto& clock = clock_[warp * 32 + lane];
    for (int i = 0; i < 32; ++i) latest[i] = std::max(latest[i], clock[i]);
  }
  for (int lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    clock_[warp * 32 + lane] = latest;
    ++clock_[warp * 32 + lane][lane];  // a new step, which the others know nothing of
  }
}

bool RaceDetector::is_before(const Past& past, int thread) const {
  if (past.thread == thread) return true;
  return past.thread / 32 == thread / 32 && clock_[thread][past.thread % 32] >= past.clock;
}

bool RaceDetector::find(
    const std::vector<Past>& past, int thread, std::uint8_t bytes, Touch touch, Finding& to) const {
  for (const Past& other : past) {
    if ((other.bytes & bytes) == 0 || is_before(other, thread)) continue;
    if (other.touch == Touch::atomic && touch == Touch::atomic) continue;
    to.is_race = true;
    to.other = {other.pc, other.thread, other.touch};
    return true;
  }
  return false;
}

RaceDetector::Finding RaceDetector::access(
    const void* pc, int thread, std::size_t offset, int bytes, Touch touch) {
  Finding finding;
  const std::size_t end = offset + static_cast<std::size_t>(bytes);
  if (words_.size() < end / kWordBytes + 1) words_.resize(end / kWordBytes + 1);
  for (std::size_t w = offset / kWordBytes; w * kWordBytes < end; ++w) {
    Word& word = words_[w];
    if (word.block != block_) word.written = 0;
    word.block = block_;
    if (word.epoch != epoch_) {
      word.loads.clear();
      word.stores.clear();
    }
    word.epoch = epoch_;

    std::uint8_t mask = 0;
    for (std::size_t byte = 0; byte < kWordBytes; ++byte) {
      const std::size_t at = w * kWordBytes + byte;
      if (at >= offset && at < end) mask = static_cast<std::uint8_t>(mask | 1u << byte);
    }
    if (!finding.is_race) find(word.stores, thread, mask, touch, finding);
    if (touch != Touch::load && !finding.is_race) find(word.loads, thread, mask, touch, finding);
    if (touch != Touch::store && (word.written & mask) != mask) finding.is_unwritten = true;

    const Past now{
        pc, clock_[thread][thread % 32], static_cast<std::uint16_t>(thread), mask, touch};
    std::vector<Past>& past = touch == Touch::load ? word.loads : word.stores;
    // One's own earlier access of the same bytes says nothing that this one does not. (An atomic
    // one says less than a plain store: it conflicts with fewer.)
    if (!past.empty() && past.back().thread == thread && (past.back().bytes & ~mask) == 0 &&
        (past.back().touch == touch || touch == Touch::store)) {
      past.pop_back();
    }
    past.push_back(now);
    if (touch != Touch::load) word.written = static_cast<std::uint8_t>(word.written | mask);
  }
  return finding;
}

}  // namespace rmsnorm::cpu_device
