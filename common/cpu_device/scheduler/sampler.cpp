#include "common/cpu_device/scheduler/sampler.hpp"

#include <algorithm>

namespace rmsnorm::cpu_device {

void Sampler::start(std::uint64_t least_blocks) {
  is_on_ = true;
  least_blocks_ = least_blocks;
  sample_ = {};
  pages_.clear();
}

Sample Sampler::stop() {
  is_on_ = false;
  for (const std::uintptr_t page : pages_) {
    sample_.pages.push_back(reinterpret_cast<std::byte*>(page));
  }
  return std::move(sample_);
}

void Sampler::obstruct(const char* reason) {
  if (sample_.obstacle.empty()) sample_.obstacle = reason;
}

void Sampler::access(const Access& access) {
  if (access.kind == AccessKind::atomic || access.is_volatile) {
    obstruct("its blocks use atomic operations or flags");
  }
  if (access.kind == AccessKind::load) return;
  const auto address = reinterpret_cast<std::uintptr_t>(access.address);
  pages_.insert(address / Sample::kPage * Sample::kPage);
}

std::vector<std::uint64_t> Sampler::choose(std::uint64_t blocks, int cluster) {
  ++sample_.kernels;
  sample_.blocks = blocks;
  if (blocks < least_blocks_) obstruct("each of its blocks has too much to do");
  if (!sample_.obstacle.empty()) return {};
  // Two neighbours each time: what one of them leaves out in the middle of a row, the other writes.
  constexpr std::uint64_t kParts = 8;
  std::set<std::uint64_t> chosen{0, 1, 65535, 65536, blocks - 2, blocks - 1};
  for (std::uint64_t i = 1; i < kParts; ++i) {
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
