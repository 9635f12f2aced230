#include "common/cpu_device/watch/races.hpp"

#include <algorithm>
#include <utility>

#include "common/cpu_device/scheduler/shared_memory.hpp"

namespace rmsnorm::cpu_device {

void Races::begin_block() {
  variables_.reset();
  dynamic_.reset();
}

void Races::swap_block(BlockState& other) {
  variables_.swap_block(other.variables);
  dynamic_.swap_block(other.dynamic);
}

void Races::add_padding(std::size_t offset) {
  variables_.set_byte_initialized(offset - SharedMemory::kFirstByte);
}

Finding Races::access(std::size_t offset, int bytes, const PastAccess& now) {
  if (offset >= SharedMemory::kDynamicBegin) {
    return dynamic_.access(order_, offset - SharedMemory::kDynamicBegin, bytes, now);
  }
  return variables_.access(order_, offset - SharedMemory::kFirstByte, bytes, now);
}

Races::Region& Races::region_of(const KnownMemory& memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data);
  for (std::size_t i = 0; i < used_; ++i) {
    if (regions_[i].begin == begin) return regions_[i];
  }
  // The smallest that has room, or else the largest: or each would grow large.
  const auto is_better = [&](const Shadow& a, const Shadow& b) {
    const bool has_room = a.room() >= memory.bytes;
    if (has_room != (b.room() >= memory.bytes)) return has_room;
    return has_room ? a.room() < b.room() : a.room() > b.room();
  };
  if (used_ == regions_.size()) regions_.emplace_back();
  for (std::size_t i = used_ + 1; i < regions_.size(); ++i) {
    if (is_better(regions_[i].shadow, regions_[used_].shadow))
      std::swap(regions_[i], regions_[used_]);
  }
  Region& region = regions_[used_++];
  region.begin = begin;
  region.bytes = memory.bytes;
  region.shadow.set_initialized(memory.has_values);
  region.shadow.reset();
  region.shadow.reserve(memory.bytes);
  return region;
}

void Races::freed(const void* data) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = 0; i < used_; ++i) {
    if (regions_[i].begin == begin) return std::swap(regions_[i], regions_[--used_]);
  }
}

void Races::reset(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (std::size_t i = 0; i < used_; ++i) {
    const bool is_inside = regions_[i].begin >= begin && regions_[i].begin < begin + bytes;
    if (is_inside) regions_[i].shadow.reset();
  }
}

void Races::filled(const KnownMemory& memory, const void* data, std::size_t bytes) {
  if (memory.has_values) return;
  Region& region = region_of(memory);
  const auto data_begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = std::max(data_begin, region.begin);
  const std::uintptr_t end = std::min(data_begin + bytes, region.begin + region.bytes);
  if (begin < end) region.shadow.filled(begin - region.begin, end - begin);
}

Finding Races::access(
    const KnownMemory& memory, std::uintptr_t address, int bytes, const PastAccess& now) {
  Region& region = region_of(memory);
  return region.shadow.access(order_, address - region.begin, bytes, now);
}

const PastAccess* Races::stored(const KnownMemory& memory, std::uintptr_t address, int bytes) {
  Region& region = region_of(memory);
  return region.shadow.stored(order_, address - region.begin, static_cast<std::size_t>(bytes));
}

}  // namespace rmsnorm::cpu_device
