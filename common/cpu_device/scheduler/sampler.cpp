#include "common/cpu_device/scheduler/sampler.hpp"

#include <algorithm>
#include <set>
#include <utility>

bool rmsnorm::Sample::has_stored(const void* data, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::uintptr_t at = begin; at < begin + bytes; ++at) {
    const auto page = stored.find(at / kPage * kPage);
    if (page == stored.end() || !page->second[at % kPage]) return false;
  }
  return true;
}

namespace rmsnorm::cpu_device {

void Sampler::start(std::uint64_t few_blocks) {
  is_on_ = true;
  few_blocks_ = few_blocks;
  sample_ = {};
}

Sample Sampler::stop() {
  is_on_ = false;
  return std::exchange(sample_, {});
}

void Sampler::obstruct(const char* reason) {
  if (sample_.obstacle.empty()) sample_.obstacle = reason;
}

void Sampler::access(const Access& access) {
  if (access.kind == AccessKind::load) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(access.address);
  std::bitset<Sample::kPage>* page = nullptr;
  for (std::uintptr_t at = begin; at < begin + static_cast<std::size_t>(access.bytes); ++at) {
    const std::uintptr_t in_page = at % Sample::kPage;
    if (page == nullptr || in_page == 0) page = &sample_.stored[at - in_page];
    (*page)[in_page] = access.kind == AccessKind::store;
  }
}

std::vector<std::uint64_t> Sampler::choose(std::uint64_t blocks, int cluster) {
  ++sample_.kernels;
  sample_.blocks = blocks;
  constexpr std::uint64_t kFarFewer = 64;
  if (blocks * kFarFewer < few_blocks_) obstruct(kTooMuchToDo);
  if (!sample_.obstacle.empty()) return {};
  // Two neighbours each time: what one of them leaves out in the middle of a row, the other writes.
  constexpr std::uint64_t kParts = 8;
  std::set<std::uint64_t> chosen{0, 1, 65535, 65536, blocks - 2, blocks - 1};
  if (blocks < few_blocks_) chosen = {blocks - 1};
  for (std::uint64_t i = 1; i < kParts && blocks >= few_blocks_; ++i) {
    chosen.insert({blocks * i / kParts, blocks * i / kParts + 1});
  }
  std::set<std::uint64_t> with_clusters;
  for (const std::uint64_t block : chosen) {
    const std::uint64_t first = block - block % static_cast<std::uint64_t>(cluster);
    if (block >= blocks) continue;
    for (int rank = 0; rank < cluster; ++rank) {
      with_clusters.insert(first + static_cast<std::uint64_t>(rank));
    }
  }
  return {with_clusters.begin(), with_clusters.end()};
}

}  // namespace rmsnorm::cpu_device
