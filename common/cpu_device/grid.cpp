#include "common/cpu_device/grid.hpp"

#include <utility>

#include "common/cpu_device/shared_memory.hpp"

namespace rmsnorm::cpu_device {

GridRunner& grid_runner() {
  static GridRunner runner;
  return runner;
}

GridRunner::GridRunner() {
  free_.push_back(std::make_unique<Resident>());
  running = &free_.front()->runner;
}

bool GridRunner::run(dim3 grid, dim3 block, const std::function<void()>& body) {
  blocks_ = std::uint64_t{grid.x} * grid.y * grid.z;
  next_ = arrived_ = 0;
  const auto threads = static_cast<int>(block.x * block.y * block.z);
  most_aside_ = kMultiprocessors * blocks_of_sm(threads) - 1;
  ++grids_;

  while (next_ < blocks_ || !aside_.empty()) {
    std::unique_ptr<Resident> resident;
    Progress progress{};
    if (can_begin()) {  // first: a block that waits may wait for any that has not begun
      if (free_.empty()) free_.push_back(std::make_unique<Resident>());
      resident = std::move(free_.back());
      free_.pop_back();
      if (std::exchange(resident->grid, grids_) != grids_) {
        resident->runner.begin_grid(grid, block, body);
      }
      const std::uint64_t n = is_changed_ ? blocks_ - 1 - next_ : next_;
      ++next_;
      running = &resident->runner;
      progress = running->begin_block(
          {static_cast<unsigned>(n % grid.x), static_cast<unsigned>(n / grid.x % grid.y),
           static_cast<unsigned>(n / grid.x / grid.y)});
    } else {
      resident = std::move(aside_.front());
      aside_.pop_front();
      watcher().swap_block(resident->seen);
      shared_memory().restore(resident->shared);
      running = &resident->runner;
      progress = running->go_on();
    }

    if (progress == Progress::waits) {
      watcher().swap_block(resident->seen);
      resident->shared = shared_memory().save();
      aside_.push_back(std::move(resident));
      continue;
    }
    free_.push_back(std::move(resident));
    if (progress == Progress::stopped) {
      for (auto& other : aside_) free_.push_back(std::move(other));
      aside_.clear();
      for (const auto& other : free_) other->runner.forget();
      return false;
    }
  }
  return true;
}

void GridRunner::barrier(Place place) {
  running->barrier(place);
  if (running->current() == 0) {
    watcher().fence(Scope::device);
    watcher().hand_on(this);
    const std::uint64_t round = rounds_;
    if (++arrived_ == blocks_) {
      arrived_ = 0;
      ++rounds_;
    }
    while (rounds_ == round) running->wait_for_blocks();
    watcher().take(this);
  }
  running->barrier(place);
}

}  // namespace rmsnorm::cpu_device
