#include "common/cpu_device/race_detector.hpp"

namespace rmsnorm::cpu_device {
namespace {

constexpr std::size_t kShadowedBytes = 4;  // for which one word stands

}  // namespace

void RaceDetector::begin_block() {
  ++of_.block;
  ++of_.epoch;
}

void RaceDetector::add_padding(std::size_t offset) {
  const std::size_t word = offset / kShadowedBytes;
  if (padding_.size() <= word) padding_.resize(word + 1);
  padding_[word] = static_cast<std::uint8_t>(padding_[word] | 1u << offset % kShadowedBytes);
}

void RaceDetector::barrier() {
  ++of_.epoch;
}

bool RaceDetector::find(const std::vector<Past>& past, const Past& now, Finding& to) const {
  for (const Past& other : past) {
    if (!is_conflict(other, now) || order_.is_before(other, now.thread)) continue;
    to.is_race = true;
    to.other = other;
    return true;
  }
  return false;
}

Finding RaceDetector::access(std::size_t offset, int bytes, Past now) {
  Finding finding;
  const std::size_t end = offset + static_cast<std::size_t>(bytes);
  if (of_.words.size() < end / kShadowedBytes + 1) of_.words.resize(end / kShadowedBytes + 1);
  for (std::size_t w = offset / kShadowedBytes; w * kShadowedBytes < end; ++w) {
    Word& word = of_.words[w];
    if (word.block != of_.block) word.written = w < padding_.size() ? padding_[w] : 0;
    word.block = of_.block;
    if (word.epoch != of_.epoch) {
      word.loads.clear();
      word.stores.clear();
    }
    word.epoch = of_.epoch;

    std::uint8_t mask = 0;
    for (std::size_t byte = 0; byte < kShadowedBytes; ++byte) {
      const std::size_t at = w * kShadowedBytes + byte;
      if (at >= offset && at < end) mask = static_cast<std::uint8_t>(mask | 1u << byte);
    }
    now.bytes = mask & 0xf;
    if (!finding.is_race) find(word.stores, now, finding);
    if (now.touch != Touch::load && !finding.is_race) find(word.loads, now, finding);
    if (now.touch != Touch::store && (word.written & mask) != mask) finding.is_unwritten = true;

    std::vector<Past>& past = now.touch == Touch::load ? word.loads : word.stores;
    // One's own earlier access of the same bytes says nothing that this one does not. (An atomic
    // or volatile one says less than a plain one: it conflicts with fewer.)
    if (!past.empty() && past.back().thread == now.thread && (past.back().bytes & ~mask) == 0 &&
        (past.back().is_strong || !now.is_strong)) {
      past.pop_back();
    }
    past.push_back(now);
    if (now.touch != Touch::load) word.written = static_cast<std::uint8_t>(word.written | mask);
  }
  return finding;
}

}  // namespace rmsnorm::cpu_device
