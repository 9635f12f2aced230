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

std::string_view omitted_file;
int omitted_line = 0;

}  // namespace

bool is_built_in(const void* address) {
  const auto* const byte = static_cast<const char*>(address);
  const auto is_in = [&](const auto& variable) {
    const auto* const begin = reinterpret_cast<const char*>(&variable);
    return byte >= begin && byte < begin + sizeof variable;
  };
  return is_in(threadIdx) || is_in(blockIdx) || is_in(blockDim) || is_in(gridDim);
}

void omit_barrier(std::string_view file, int line) {
  omitted_file = file;
  omitted_line = line;
}

bool is_omitted_barrier(SourceLocation location) {
  return location.line == omitted_line && std::string_view(location.file).ends_with(omitted_file);
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
  is_reversed_ = grid_.order().threads % 2 != 0;
  const auto threads = static_cast<std::size_t>(threads_in_block_);
  if (stacks_ == nullptr || stacks_->count() < threads) {
    reset();
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
  std::fill_n(path_hashes_.begin(), threads_in_block_, 0);
  live_ = threads_in_block_;
  at_barrier_ = predicates_ = 0;
  waits_for_blocks_ = false;
  const auto count = static_cast<std::uint64_t>(threads_in_block_);
  current_ = static_cast<int>(GridRunner::first_of(count, grid_.order().threads));
  return resume();
}

Progress BlockRunner::resume() {
  progress_ = Progress::ended;
  blockIdx.x = block_.x;
  blockIdx.y = block_.y;
  blockIdx.z = block_.z;
  threadIdx = index_of(current_);
  path_hash = path_hashes_[static_cast<std::size_t>(current_)];
  main_.switch_to(all_[current_].fiber);
  if (progress_ != Progress::suspended) observer().block_ends();
  return progress_;
}

void BlockRunner::reset() {
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
  ++changes;
  // Collectives that waited for this thread alone are complete.
  for (std::uint32_t waiting = warp.in_collective; waiting != 0; waiting &= waiting - 1) {
    try_to_complete(this->warp(), thread_of(this->warp(), std::countr_zero(waiting)).mask);
  }
  if (live_ > 0 && at_barrier_ == live_) release_barrier();
  if (live_ == 0) {
    all_[current_].fiber.switch_to(main_);
  } else {
    wait();
  }
}

/// Blocks the running thread until someone makes it ready. Its path hash has been saved.
void BlockRunner::wait() {
  int next = next_ready();
  if (next < 0 && std::exchange(waits_for_blocks_, false)) {
    int waiting = 0;
    for (const Warp& warp : warps_) waiting += std::popcount(warp.yielded);
    if (grid_.wait_is_in_vain(waiting)) report_wait_in_vain();
    yield_block();
  }
  if (next < 0 && (resume_activemask() || resume_yielded())) next = next_ready();
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
  path_hash = path_hashes_[static_cast<std::size_t>(next)];
  current_ = next;
  threadIdx = index_of(next);
  me.switch_to(all_[next].fiber);
}

/// The next ready thread after the running one, in the order of the schedule, or -1.
int BlockRunner::next_ready() const {
  const auto first_of = [&](int warp, std::uint32_t lanes) {
    const int lane = is_reversed_ ? std::bit_width(lanes) - 1 : std::countr_zero(lanes);
    return warp * kWarpThreads + lane;
  };
  const int first_warp = warp();
  const std::uint32_t behind = is_reversed_ ? (1u << lane()) - 1 : ~1u << lane();
  if (const std::uint32_t lanes = warps_[first_warp].ready & behind; lanes != 0) {
    return first_of(first_warp, lanes);
  }
  const int warps = (threads_in_block_ - 1) / kWarpThreads + 1;
  int warp = first_warp;
  do {
    if (is_reversed_) {
      warp = (warp == 0 ? warps : warp) - 1;
    } else {
      warp = warp + 1 == warps ? 0 : warp + 1;
    }
    if (warps_[warp].ready != 0) return first_of(warp, warps_[warp].ready);
  } while (warp != first_warp);
  return -1;
}

void BlockRunner::yield() {
  const NotWatching guard;
  save_path_hash();
  warps_[warp()].ready &= ~(1u << lane());
  warps_[warp()].yielded |= 1u << lane();
  wait();
}

bool BlockRunner::spin(const void* pc, const void* flag) {
  if (live_ == 0) return false;  // it is the host
  constexpr int kMaxSpins = 64;
  constexpr int kMaxOthers = 4096;  // it may poll more flags than are kept here
  if (std::exchange(spinning_thread_, current_) != current_) {
    flags_ = {};
    other_flags_ = 0;
  }
  if (std::find(flags_.begin(), flags_.end(), flag) == flags_.end()) {
    std::rotate(flags_.begin(), flags_.end() - 1, flags_.end());
    flags_[0] = flag;
    spins_ = 0;
    if (++other_flags_ < kMaxOthers) return false;
    other_flags_ = 0;
    wait_for_blocks(pc);
    return false;
  }
  if (++spins_ >= kMaxSpins) {
    spins_ = 0;
    wait_for_blocks(pc);
  }
  return true;
}

void BlockRunner::wait_for_blocks(const Where& where) {
  waits_for_blocks_ = true;
  waiting_ = current_;
  waits_at_ = where;
  yield();
}

void BlockRunner::on_atomic(const Access& access) {
  if (!spin(access.pc, access.address)) ++changes;
  if (grid_.ends_turn(access.pc)) yield_block();
  observer().access(access);
}

void BlockRunner::on_strong_store(const void* pc) {
  ++changes;
  if (grid_.ends_turn_at_store(pc)) yield_block();
}

void BlockRunner::yield_block() {
  const bool is_in_cluster = grid_.cluster() != nullptr;  // of which all blocks run
  if (grid_.sampler().is_on() && !is_in_cluster) {
    grid_.sampler().obstruct("its blocks wait for each other");
    stop();
  }
  if (!grid_.has_others()) return;
  const NotWatching guard;
  save_path_hash();
  progress_ = Progress::suspended;
  all_[current_].fiber.switch_to(main_);
}

bool BlockRunner::resume_yielded() {
  bool any = false;
  for (Warp& warp : warps_) {
    any = any || warp.yielded != 0;
    warp.ready |= std::exchange(warp.yielded, 0);
  }
  if (any) observer().all_yielded();
  return any;
}

std::uint32_t BlockRunner::activemask(SourceLocation location) {
  const NotWatching guard;
  save_path_hash();
  Thread& me = all_[current_];
  me.location = location;
  warps_[warp()].ready &= ~(1u << lane());
  warps_[warp()].at_activemask |= 1u << lane();
  wait();
  return me.value;
}

bool BlockRunner::resume_activemask() {
  bool any = false;
  for (int w = 0; w < kMaxWarps; ++w) {
    const std::uint32_t at_activemask = std::exchange(warps_[w].at_activemask, 0);
    warps_[w].ready |= at_activemask;
    any = any || at_activemask != 0;
    for (int lane = 0; lane < kWarpThreads; ++lane) {
      if ((at_activemask >> lane & 1) == 0) continue;
      Thread& thread = thread_of(w, lane);
      thread.value = 0;
      for (int other = 0; other < kWarpThreads; ++other) {
        const bool is_here = (at_activemask >> other & 1) != 0 &&
                             is_same_line(thread_of(w, other).location, thread.location) &&
                             path_hash_of(w, other) == path_hash_of(w, lane);
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

int BlockRunner::barrier(SourceLocation location, bool predicate) {
  const NotWatching guard;
  save_path_hash();
  const Arrival arrival = arrival_at(location, stack_end());
  if (at_barrier_ == 0) {
    barrier_ = arrival;
    first_at_barrier_ = current_;
  } else if (arrival != barrier_) {
    observer().barrier_mismatch(arrival, barrier_, first_at_barrier_, false);
  }
  warps_[warp()].ready &= ~(1u << lane());
  warps_[warp()].at_barrier |= 1u << lane();
  predicates_ += predicate ? 1 : 0;
  if (++at_barrier_ == live_) {
    release_barrier();
    path_hash = 0;
  } else {
    wait();
  }
  return last_predicates_;  // nobody passes the next barrier before all have read it
}

void BlockRunner::release_barrier() {
  ++changes;
  if (live_ < threads_in_block_) report_if_warp_diverged();
  observer().barrier_passed(barrier_.location, live_);
  std::fill_n(path_hashes_.begin(), threads_in_block_, 0);
  at_barrier_ = 0;
  last_predicates_ = std::exchange(predicates_, 0);
  storage_uses_.clear();
  for (Warp& warp : warps_) warp.ready |= std::exchange(warp.at_barrier, 0);
}

void BlockRunner::use_warp_storage(const void* storage, SourceLocation location) {
  const NotWatching guard;
  const auto use = std::find_if(storage_uses_.begin(), storage_uses_.end(), [&](const auto& other) {
    return other.storage == storage;
  });
  if (use == storage_uses_.end()) {
    storage_uses_.push_back({storage, warp(), location});
  } else if (use->warp != warp()) {
    const std::size_t offset = shared_.offset_of(storage);
    report(
        mistakes::kStorageOfTwoWarps, location,
        {warp(), element_text(shared_.nearest(offset), offset), use->warp, use->location});
  }
}

// The mistakes.

void BlockRunner::report(
    const Mistake& what, const Where& where, const std::vector<FormatArg>& args, int thread) {
  const NotWatching guard;
  observer().mistake(what, where, thread, args);
}

void BlockRunner::report(
    const Mistake& what, const Where& where, const std::vector<FormatArg>& args) {
  report(what, where, args, current_);
}

void BlockRunner::report_wait_in_vain() {
  const auto [waiting_to_begin, blocks] = grid_.blocks_to_begin();
  if (waiting_to_begin > 0) {
    report(mistakes::kBlocksNotResident, waits_at_, {waiting_, waiting_to_begin, blocks}, waiting_);
  } else {
    report(mistakes::kWaitsInVain, waits_at_, {waiting_}, waiting_);
  }
  stop();
}

/// Diverged warp: a barrier does not wait for a warp that has returned, but needs a whole warp.
void BlockRunner::report_if_warp_diverged() {
  const auto part = std::find_if(warps_.begin(), warps_.end(), [](const Warp& warp) {
    return warp.returned != 0 && warp.at_barrier != 0;
  });
  if (part == warps_.end()) return;
  const auto gone =
      static_cast<int>(part - warps_.begin()) * kWarpThreads + std::countr_zero(part->returned);
  report(
      mistakes::kReturnedBeforeBarrier, barrier_.location,
      {gone, live_ == 1 ? "another waits" : fmt::format("{} others wait", live_)}, gone);
}

}  // namespace rmsnorm::cpu_device
