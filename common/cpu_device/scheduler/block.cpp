#include "common/cpu_device/scheduler/block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <utility>

#include "common/cpu_device/scheduler/grid.hpp"
#include "common/cpu_device/scheduler/sampler.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"

[[gnu::section("rmsnorm_device")]] uint3 threadIdx;
[[gnu::section("rmsnorm_device")]] uint3 blockIdx;
[[gnu::section("rmsnorm_device")]] dim3 blockDim;
[[gnu::section("rmsnorm_device")]] dim3 gridDim;

namespace rmsnorm::cpu_device {
namespace {

std::string_view left_out_file;
int left_out_line = 0;

}  // namespace

bool is_built_in(const void* address) {
  const auto* const byte = static_cast<const char*>(address);
  const auto is_in = [&](const auto& variable) {
    const auto* const begin = reinterpret_cast<const char*>(&variable);
    return byte >= begin && byte < begin + sizeof variable;
  };
  return is_in(threadIdx) || is_in(blockIdx) || is_in(blockDim) || is_in(gridDim);
}

void leave_out_barrier(std::string_view file, int line) {
  left_out_file = file;
  left_out_line = line;
}

bool is_left_out(Place place) {
  return place.line == left_out_line && std::string_view(place.file).ends_with(left_out_file);
}

BlockRunner::BlockRunner(GridRunner& grid)
    : grid_(grid), shared_(grid.shared()), all_(new Thread[kMaxThreads]) {}

Observer& BlockRunner::observer() const {
  return grid_.observer();
}

void BlockRunner::begin_grid(dim3 grid, dim3 block, const std::function<void()>& body) {
  gridDim = grid;
  blockDim = block;
  body_ = &body;
  threads_in_block_ = static_cast<int>(block.x * block.y * block.z);
  is_reversed_ = grid_.is_order_changed();
  const auto threads = static_cast<std::size_t>(threads_in_block_);
  if (stacks_ == nullptr || stacks_->count() < threads) {
    forget();
    stacks_ = std::make_unique<Stacks>(threads);
  }
  warps_ = {};
  for (int i = 0; i < threads_in_block_; ++i) {
    Thread& thread = all_[i];
    const auto n = static_cast<unsigned>(i);
    thread.index = {n % block.x, n / block.x % block.y, n / (block.x * block.y)};
    if (!thread.has_begun) thread.fiber.begin(stacks_->bottom(n), stacks_->top(n), fiber_main);
    thread.has_begun = true;
    warps_[i / kWarpThreads].exists |= 1u << i % kWarpThreads;
  }
}

Progress BlockRunner::begin_block(uint3 index) {
  block_ = index;
  static std::uint64_t blocks = 0;
  block_number_ = ++blocks;
  shared_.begin_block();
  observer().block_begins();
  for (Warp& warp : warps_) warp = {.exists = warp.exists, .ready = warp.exists};
  storage_uses_.clear();
  std::fill_n(ways_.begin(), threads_in_block_, 0);
  live_ = threads_in_block_;
  at_barrier_ = agreeing_ = 0;
  is_looking_ = false;
  current_ = is_reversed_ ? threads_in_block_ - 1 : 0;
  return go_on();
}

Progress BlockRunner::go_on() {
  progress_ = Progress::ended;
  blockIdx.x = block_.x;
  blockIdx.y = block_.y;
  blockIdx.z = block_.z;
  threadIdx = index_of(current_);
  way = ways_[static_cast<std::size_t>(current_)];
  main_.switch_to(all_[current_].fiber);
  if (progress_ != Progress::waits) observer().block_ends();
  return progress_;
}

void BlockRunner::forget() {
  for (int i = 0; i < kMaxThreads; ++i) all_[i].has_begun = false;
}

void BlockRunner::fiber_main() {
  for (;;) running->run_thread();
}

/// One thread of one block, from the first line of the kernel to the last.
void BlockRunner::run_thread() {
  in_watched_kernel = false;  // the host may have been watched
  observer().thread_begins();
  (*body_)();
  in_watched_kernel = false;
  Warp& warp = warps_[this->warp()];
  warp.ready &= ~(1u << lane());
  warp.returned |= 1u << lane();
  --live_;
  // Whoever waited for this thread alone need not wait any longer.
  for (std::uint32_t waiting = warp.meeting; waiting != 0; waiting &= waiting - 1) {
    try_to_meet(this->warp(), thread_of(this->warp(), std::countr_zero(waiting)).mask);
  }
  if (live_ > 0 && at_barrier_ == live_) release_barrier();
  if (live_ == 0) {
    all_[current_].fiber.switch_to(main_);
  } else {
    wait();
  }
}

/// Leaves the running thread until someone makes it ready. Its way has been kept.
void BlockRunner::wait() {
  int next = next_ready();
  if (next < 0 && std::exchange(is_looking_, false)) give_way();
  if (next < 0 && (resume_gathering() || resume_paused())) next = next_ready();
  if (next < 0) {
    report_deadlock();
    stop();
  }
  switch_to(next);
}

void BlockRunner::switch_to(int next) {
  if (next == current_) return;
  Fiber& me = all_[current_].fiber;
  all_[(next + 1) & (kMaxThreads - 1)].fiber.prefetch();  // its turn is likely to come next
  way = ways_[static_cast<std::size_t>(next)];
  current_ = next;
  threadIdx = index_of(next);
  me.switch_to(all_[next].fiber);
}

/// The next thread in front of the running one that need not wait, or -1.
int BlockRunner::last_ready() const {
  const auto highest = [](std::uint32_t bits) { return std::bit_width(bits) - 1; };
  const int first_warp = warp();
  if (const std::uint32_t bits = warps_[first_warp].ready & ((1u << lane()) - 1); bits != 0) {
    return first_warp * kWarpThreads + highest(bits);
  }
  int warp = first_warp;
  do {
    warp = (warp == 0 ? (threads_in_block_ - 1) / kWarpThreads + 1 : warp) - 1;
    if (warps_[warp].ready != 0) return warp * kWarpThreads + highest(warps_[warp].ready);
  } while (warp != first_warp);
  return -1;
}

/// The next thread after the running one that need not wait, or -1.
int BlockRunner::next_ready() const {
  if (is_reversed_) return last_ready();
  const int first_warp = warp();
  const std::uint32_t behind = lane() == 31 ? 0 : ~0u << (lane() + 1);
  if (const std::uint32_t bits = warps_[first_warp].ready & behind; bits != 0) {
    return first_warp * kWarpThreads + std::countr_zero(bits);
  }
  const int warps = (threads_in_block_ - 1) / kWarpThreads + 1;
  int warp = first_warp;
  do {
    warp = warp + 1 == warps ? 0 : warp + 1;
    if (warps_[warp].ready != 0) return warp * kWarpThreads + std::countr_zero(warps_[warp].ready);
  } while (warp != first_warp);
  return -1;
}

void BlockRunner::pause() {
  const NotWatching pause;
  keep_way();
  warps_[warp()].ready &= ~(1u << lane());
  warps_[warp()].paused |= 1u << lane();
  wait();
}

void BlockRunner::look(const void* flag) {
  if (live_ == 0) return;  // it is the host
  constexpr int kPatience = 64;
  looks_ = flag == flag_ && current_ == looker_ ? looks_ + 1 : 0;
  flag_ = flag;
  looker_ = current_;
  if (looks_ < kPatience) return;
  looks_ = 0;
  wait_for_blocks();
}

void BlockRunner::wait_for_blocks() {
  is_looking_ = true;
  pause();
}

void BlockRunner::touch_atomically(const Access& access) {
  look(access.address);
  if (grid_.is_order_changed()) give_way();
  observer().access(access);
}

void BlockRunner::give_way() {
  const bool is_in_cluster = grid_.cluster() != nullptr;  // of which all blocks run
  if (grid_.sampler().is_on() && !is_in_cluster) {
    grid_.sampler().obstruct("its blocks wait for each other");
    stop();
  }
  if (!grid_.has_others()) return;
  const NotWatching pause;
  keep_way();
  progress_ = Progress::waits;
  all_[current_].fiber.switch_to(main_);
}

bool BlockRunner::resume_paused() {
  bool any = false;
  for (Warp& warp : warps_) {
    any = any || warp.paused != 0;
    warp.ready |= std::exchange(warp.paused, 0);
  }
  if (any) observer().all_paused();
  return any;
}

std::uint32_t BlockRunner::gather(Place place) {
  const NotWatching pause;
  keep_way();
  Thread& me = all_[current_];
  me.place = place;
  warps_[warp()].ready &= ~(1u << lane());
  warps_[warp()].gathering |= 1u << lane();
  wait();
  return me.value;
}

bool BlockRunner::resume_gathering() {
  bool any = false;
  for (int w = 0; w < kMaxWarps; ++w) {
    const std::uint32_t gathering = std::exchange(warps_[w].gathering, 0);
    warps_[w].ready |= gathering;
    any = any || gathering != 0;
    for (int lane = 0; lane < kWarpThreads; ++lane) {
      if ((gathering >> lane & 1) == 0) continue;
      Thread& thread = thread_of(w, lane);
      thread.value = 0;
      for (int other = 0; other < kWarpThreads; ++other) {
        const bool is_here = (gathering >> other & 1) != 0 &&
                             same_place(thread_of(w, other).place, thread.place) &&
                             way_of(w, other) == way_of(w, lane);
        if (is_here) thread.value |= 1u << other;
      }
    }
  }
  return any;
}

void BlockRunner::stop() {
  progress_ = Progress::stopped;
  in_watched_kernel = false;
  all_[current_].fiber.switch_to(main_);
  std::abort();  // nobody comes back
}

int BlockRunner::barrier(Place place, bool predicate) {
  const NotWatching pause;
  keep_way();
  const Arrival arrival = arrival_at(place, stack_end());
  if (at_barrier_ == 0) {
    barrier_ = arrival;
    first_at_barrier_ = current_;
  } else if (arrival != barrier_) {
    observer().arrived_by_another_way(arrival, barrier_, first_at_barrier_, false);
  }
  warps_[warp()].ready &= ~(1u << lane());
  warps_[warp()].at_barrier |= 1u << lane();
  agreeing_ += predicate ? 1 : 0;
  if (++at_barrier_ == live_) {
    release_barrier();
    way = 0;
  } else {
    wait();
  }
  return agreed_;  // nobody passes the next one before all have read it
}

void BlockRunner::release_barrier() {
  if (live_ < threads_in_block_) report_if_warp_is_parted();
  observer().barrier_passed(barrier_.place, live_);
  std::fill_n(ways_.begin(), threads_in_block_, 0);
  at_barrier_ = 0;
  agreed_ = std::exchange(agreeing_, 0);
  storage_uses_.clear();
  for (Warp& warp : warps_) warp.ready |= std::exchange(warp.at_barrier, 0);
}

void BlockRunner::use_warp_storage(const void* storage, Place place) {
  const NotWatching pause;
  const auto use = std::find_if(storage_uses_.begin(), storage_uses_.end(), [&](const auto& other) {
    return other.storage == storage;
  });
  if (use == storage_uses_.end()) {
    storage_uses_.push_back({storage, warp(), place});
  } else if (use->warp != warp()) {
    const std::size_t offset = shared_.offset_of(storage);
    report(
        Mistake::storage_of_two_warps, place,
        {warp(), element_text(shared_.nearest(offset), offset), use->warp, use->place});
  }
}

// The mistakes.

void BlockRunner::report(
    Mistake what, const Where& where, const std::vector<Word>& words, int thread) {
  const NotWatching pause;
  observer().mistake(what, where, thread, words);
}

void BlockRunner::report(Mistake what, const Where& where, const std::vector<Word>& words) {
  report(what, where, words, current_);
}

/// A barrier does not wait for a warp that has returned, but wants a warp as a whole.
void BlockRunner::report_if_warp_is_parted() {
  const auto part = std::find_if(warps_.begin(), warps_.end(), [](const Warp& warp) {
    return warp.returned != 0 && warp.at_barrier != 0;
  });
  if (part == warps_.end()) return;
  const auto gone =
      static_cast<int>(part - warps_.begin()) * kWarpThreads + std::countr_zero(part->returned);
  report(
      Mistake::returned_before_barrier, barrier_.place,
      {gone, live_ == 1 ? "another waits" : fmt::format("{} others wait", live_)}, gone);
}

}  // namespace rmsnorm::cpu_device
