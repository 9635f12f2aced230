#include "common/cpu_device/sampler.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "common/cpu_device/device_memory.hpp"

namespace rmsnorm::cpu_device {

Sampler& sampler() {
  static Sampler sampler;
  return sampler;
}

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
  if (access.touch == Touch::atomic || access.is_volatile) {
    obstruct("its blocks use atomic operations or flags");
  }
  if (access.touch == Touch::load) return;
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

namespace rmsnorm {

void start_sampling(std::uint64_t least_blocks) {
  cpu_device::sampler().start(least_blocks);
}

Sample stop_sampling() {
  return cpu_device::sampler().stop();
}

void* repeat_in_device_memory(std::size_t bytes, const std::vector<std::byte>& pattern) {
  const int file = memfd_create("pattern", 0);
  if (file < 0) return nullptr;
  char* const data = write(file, pattern.data(), pattern.size()) == std::ssize(pattern)
                         ? cpu_device::take_addresses(bytes)
                         : nullptr;
  bool is_there = data != nullptr;
  for (std::size_t at = 0; at < bytes && is_there; at += pattern.size()) {
    is_there = mmap(
                   data + at, std::min(pattern.size(), bytes - at), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file, 0) != MAP_FAILED;
  }
  close(file);
  return is_there ? data : nullptr;
}

}  // namespace rmsnorm
