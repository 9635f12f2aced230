#include "common/cpu_device/global_races.hpp"

#include <algorithm>

namespace rmsnorm::cpu_device {

void GlobalRaces::freed(const void* data) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  std::erase_if(regions_, [&](const Region& region) { return region.begin == begin; });
}

void GlobalRaces::forget(const void* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (Region& region : regions_) {
    if (region.begin < begin || region.begin >= begin + bytes) continue;
    region.has_value.assign(region.has_value.size(), false);
    const auto cells =
        static_cast<std::ptrdiff_t>((region.bytes + region.cell_bytes - 1) / region.cell_bytes);
    const auto first = cells_.begin() + static_cast<std::ptrdiff_t>(region.first_cell);
    std::fill(first, first + cells, Cell{});
  }
}

void GlobalRaces::filled(const KnownMemory& memory, const void* data, std::size_t bytes) {
  Region& region = region_of(memory);
  const auto data_begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = std::max(data_begin, region.begin);
  const std::uintptr_t end = std::min(data_begin + bytes, region.begin + region.bytes);
  for (std::uintptr_t at = begin; at < end && !region.has_value.empty(); at += region.cell_bytes) {
    region.has_value[(at - region.begin) / region.cell_bytes] = true;
  }
}

GlobalRaces::Region& GlobalRaces::region_of(const KnownMemory& memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data);
  for (Region& region : regions_) {
    if (region.begin == begin) return region;
  }
  const std::size_t cell = std::min<std::size_t>(4, memory.element_bytes);
  const std::size_t cells = (memory.bytes + cell - 1) / cell;
  regions_.push_back(
      {begin, memory.bytes, cell, used_, std::vector<bool>(memory.has_values ? 0 : cells)});
  used_ += cells;
  if (cells_.size() < used_) cells_.resize(used_);
  return regions_.back();
}

bool GlobalRaces::find(const Past& other, const Past& now, Finding& to) const {
  if (!is_conflict(other, now) || order_.is_before(other, now.thread)) return false;
  to.is_race = true;
  to.other = other;
  return true;
}

Finding GlobalRaces::access(
    const KnownMemory& memory, std::uintptr_t address, int bytes, Past now) {
  Region& region = region_of(memory);
  Finding finding;
  const std::size_t from = address - region.begin;
  const std::size_t end = from + static_cast<std::size_t>(bytes);
  for (std::size_t i = from / region.cell_bytes; i * region.cell_bytes < end; ++i) {
    Cell& cell = cells_[region.first_cell + i];
    const std::size_t first = std::max(from, i * region.cell_bytes) - i * region.cell_bytes;
    const std::size_t last = std::min(end - i * region.cell_bytes, region.cell_bytes);
    now.bytes = static_cast<std::uint8_t>((1u << last) - (1u << first)) & 0xf;

    if (!finding.is_race && !find(cell.store, now, finding) && now.touch != Touch::load) {
      find(cell.loads[0], now, finding) || find(cell.loads[1], now, finding);
    }
    if (!region.has_value.empty()) {
      if (now.touch != Touch::store && !region.has_value[i]) finding.is_unwritten = true;
      if (now.touch != Touch::load) region.has_value[i] = true;
    }
    if (now.touch != Touch::load) {
      cell.store = now;
    } else {
      if (cell.loads[0].thread != now.thread || cell.loads[0].block != now.block) {
        cell.loads[1] = cell.loads[0];
      }
      cell.loads[0] = now;
    }
  }
  return finding;
}

const Past* GlobalRaces::stored(const KnownMemory& memory, std::uintptr_t address, int bytes) {
  const Region& region = region_of(memory);
  const std::size_t from = address - region.begin;
  const std::size_t end = from + static_cast<std::size_t>(bytes);
  for (std::size_t i = from / region.cell_bytes; i * region.cell_bytes < end; ++i) {
    const Past& store = cells_[region.first_cell + i].store;
    if (order_.is_of_launch(store)) return &store;
  }
  return nullptr;
}

}  // namespace rmsnorm::cpu_device
