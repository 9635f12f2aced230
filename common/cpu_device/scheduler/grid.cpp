#include "common/cpu_device/scheduler/grid.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/cpu_device/scheduler/bulk_copy.hpp"

namespace rmsnorm::cpu_device {

GridRunner::GridRunner(SharedMemory& shared) : shared_(shared) {
  free_.push_back(new_resident());
  running = &free_.front()->runner;
}

std::unique_ptr<GridRunner::Resident> GridRunner::new_resident() {
  return std::make_unique<Resident>(*this, residents_++);
}

/// One for the next block. Neighbours get one cluster, which is free when all have ended.
std::unique_ptr<GridRunner::Resident> GridRunner::next_resident(
    std::uint64_t number, int threads, int cluster) {
  if (free_.empty()) free_.push_back(new_resident());
  std::unique_ptr<Resident> resident = std::move(free_.back());
  free_.pop_back();
  resident->cluster = nullptr;
  resident->rank = 0;
  if (cluster == 1) return resident;
  const auto of_cluster = static_cast<std::uint64_t>(cluster);
  if (next_ % of_cluster == 0) {  // a cluster's blocks begin one after the other
    const auto unused = std::find_if(clusters_.begin(), clusters_.end(), [](const auto& known) {
      return known.use_count() == 1;
    });
    if (unused != clusters_.end()) std::swap(*unused, clusters_.back());
    if (unused == clusters_.end())
      clusters_.push_back(std::make_shared<Cluster>(*this, cluster, threads));
    static std::uint64_t clusters = 0;
    clusters_.back()->begin(++clusters);
  }
  resident->cluster = clusters_.back();
  resident->rank = static_cast<int>(number % of_cluster);
  return resident;
}

void GridRunner::block_suspended(Resident& resident) {
  observer().block_suspended(resident.number);
  if (resident.cluster != nullptr) {
    shared_.save(resident.cluster->memory(resident.rank));
    return;
  }
  if (resident.shared == nullptr) {
    resident.shared = std::make_unique_for_overwrite<char[]>(SharedMemory::kMemoryBytes);
  }
  resident.variables = shared_.save(resident.shared.get());
}

void GridRunner::block_resumed(Resident& resident) {
  observer().block_resumed(resident.number);
  if (resident.cluster != nullptr) {  // others may have written to what it has not declared yet
    return shared_.restore(resident.cluster->memory(resident.rank), ~std::size_t{0});
  }
  shared_.restore(resident.shared.get(), resident.variables);
}

std::uint64_t GridRunner::first_of(std::uint64_t count, int order) {
  if (order < 2) return order == 0 ? 0 : count - 1;
  return static_cast<std::uint64_t>(order) * 0x9e3779b97f4a7c15u % count;
}

/// The block that is the nth to begin, from 0. Those of a cluster are neighbours.
std::uint64_t GridRunner::nth_block(std::uint64_t n, int cluster) const {
  const int order = order_.blocks;
  if (order < 2) return order == 0 ? n : blocks_ - 1 - n;
  const auto together = static_cast<std::uint64_t>(cluster);
  const std::uint64_t clusters = blocks_ / together;
  const std::uint64_t first = first_of(clusters, order);
  std::uint64_t step = first + 1;  // with no common factor, it leads to each once
  while (std::gcd(step, clusters) != 1) ++step;
  return (first + n / together % clusters * step) % clusters * together + n % together;
}

bool GridRunner::ends_turn(const void* pc) {
  constexpr std::size_t kFew = 8;
  if (order_.turn_until == 0 || !has_others()) return false;
  const std::uint64_t turn = turns_++;
  if (turn < order_.turn_from || turn >= order_.turn_until) return false;
  is_turn_open_ = first_turns_.size() < kFew;
  if (is_turn_open_) first_turns_.push_back({running->block_index(), pc, {}});
  return true;
}

bool GridRunner::ends_turn_at_store(const void* pc) {
  constexpr std::uint32_t kMost = 1 << 12;  // each takes time
  const bool is_one = ++stores_ < kMost && (stores_ * 0x9e3779b9u >> 31) != 0;
  return is_one && ends_turn(pc);
}

bool GridRunner::wait_is_in_vain(int threads) {
  constexpr std::size_t kFew = 1 << 10;  // some poll many times, and then do something else
  constexpr std::size_t kMany = 1 << 14;
  if (std::exchange(changes_, changes) != changes) waits_ = waiting_ = 0;
  waiting_ += static_cast<std::size_t>(threads);
  const std::size_t others = 8 * suspended_.size();
  return ++waits_ > kFew + others && waiting_ > kMany + others;
}

bool GridRunner::run(
    dim3 grid, dim3 block, const std::function<void()>& body, int cluster, bool is_cooperative) {
  blocks_ = std::uint64_t{grid.x} * grid.y * grid.z;
  std::vector<std::uint64_t> chosen;
  if (sampler_.is_on()) {
    chosen = sampler_.choose(blocks_, cluster);
    blocks_ = chosen.size();
  }
  next_ = arrived_ = 0;
  is_turn_open_ = false;
  stores_ = 0;
  const auto threads = static_cast<int>(block.x * block.y * block.z);
  most_resident_ = std::max(multiprocessors_ * blocks_of_sm(threads), cluster);
  is_cooperative_ = is_cooperative;
  clusters_.clear();
  ++grids_;

  while (next_ < blocks_ || !suspended_.empty()) {
    std::unique_ptr<Resident> resident;
    Progress progress{};
    if (can_begin()) {  // first: a block that waits may wait for any that has not begun
      std::uint64_t n = nth_block(next_, cluster);
      if (!chosen.empty()) n = chosen[n];
      resident = next_resident(n, threads, cluster);
      if (std::exchange(resident->grid, grids_) != grids_) {
        resident->runner.begin_grid(grid, block, body);
      }
      ++next_;
      ++changes;
      current_ = resident.get();
      running = &resident->runner;
      if (cluster > 1) resident->cluster->begin_block(resident->rank, resident->runner);
      const uint3 index = {
          static_cast<unsigned>(n % grid.x), static_cast<unsigned>(n / grid.x % grid.y),
          static_cast<unsigned>(n / grid.x / grid.y)};
      if (std::exchange(is_turn_open_, false)) first_turns_.back().next = index;
      progress = running->begin_block(index);
    } else {
      resident = std::move(suspended_.front());
      suspended_.pop_front();
      block_resumed(*resident);
      current_ = resident.get();
      running = &resident->runner;
      if (std::exchange(is_turn_open_, false)) first_turns_.back().next = running->block_index();
      progress = running->resume();
    }

    if (progress == Progress::suspended) {
      block_suspended(*resident);
      suspended_.push_back(std::move(resident));
      continue;
    }
    if (progress == Progress::ended) report_transfers_left(resident->runner, resident->rank);
    if (resident->cluster != nullptr && progress == Progress::ended) {
      resident->cluster->end_block(resident->rank);
      resident->cluster = nullptr;
    }
    free_.push_back(std::move(resident));
    if (progress == Progress::stopped) {
      for (auto& other : suspended_) free_.push_back(std::move(other));
      suspended_.clear();
      for (const auto& other : free_) other->runner.reset();
      return false;
    }
  }
  return true;
}

void GridRunner::want_cluster(int blocks) {
  wanted_cluster_ = blocks;
  running->stop();
}

void GridRunner::barrier(SourceLocation location) {
  if (!is_cooperative_) {
    running->report(mistakes::kGridNotCooperative, location, {running->current()});
    running->stop();
  }
  running->barrier(location);
  if (running->current() == 0) {
    observer().release(this, Scope::device);
    const std::uint64_t round = rounds_;
    if (++arrived_ == blocks_) {
      arrived_ = 0;
      ++rounds_;
      ++changes;
    }
    while (rounds_ == round) running->wait_for_blocks(location);
    observer().acquire(this, Scope::device);
  }
  running->barrier(location);
}

}  // namespace rmsnorm::cpu_device
