#include "common/cpu_device/block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "common/cpu_device/access.hpp"
#include "common/cpu_device/grid.hpp"
#include "common/cpu_device/sampler.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/source_lines.hpp"
#include "common/cpu_device/watcher.hpp"

[[gnu::section("rmsnorm_device")]] uint3 threadIdx;
[[gnu::section("rmsnorm_device")]] uint3 blockIdx;
[[gnu::section("rmsnorm_device")]] dim3 blockDim;
[[gnu::section("rmsnorm_device")]] dim3 gridDim;

namespace rmsnorm::cpu_device {
namespace {

std::string text_of(Place place) {
  return place_text(line_of(place));
}

/// Reports a mistake of a thread, once for each `key`.
template <class... Values>
void report(
    const std::string& key, Place place, int thread, const char* advice,
    fmt::format_string<const Values&...> what, const Values&... values) {
  hazards().add(
      key, [&] { return hazard_at(line_of(place), thread, fmt::format(what, values...), advice); });
}

/// Whether lanes of a warp can meet in two calls: in those of one function of CUDA, wherever they
/// are. A library's functions have to be called together.
bool same_call(Place a, Place b) {
  return a.call == b.call && (a.call != WarpCall::other || same_place(a, b));
}

/// "lane 3", "lanes 0 to 15 and 31"
std::string lanes_of(std::uint32_t mask) {
  std::string text = std::popcount(mask) == 1 ? "lane " : "lanes ";
  bool is_first = true;
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const int run = std::countr_one(mask >> lane);
    if (!is_first) text += ", ";
    text += run == 1 ? fmt::format("{}", lane) : fmt::format("{} to {}", lane, lane + run - 1);
    is_first = false;
    lane += run;
  }
  return text;
}

const char* name_of(Meeting kind) {
  switch (kind) {
    case Meeting::sync:
      return "__syncwarp()";
    case Meeting::shuffle:
      return "a shuffle";
    case Meeting::ballot:
      return "a vote";
    case Meeting::exchange:
      return "a match or a reduction";
  }
  return "";
}

/// The name of a function of CUDA, or what a library's function does.
const char* name_of(Meeting kind, WarpCall call) {
  constexpr std::array kNames = {
      "",
      "__syncwarp()",
      "__shfl_sync()",
      "__shfl_up_sync()",
      "__shfl_down_sync()",
      "__shfl_xor_sync()",
      "__ballot_sync()",
      "__any_sync()",
      "__all_sync()",
      "__match_any_sync()",
      "__match_all_sync()",
      "__reduce_add_sync()",
      "__reduce_min_sync()",
      "__reduce_max_sync()",
      "__reduce_and_sync()",
      "__reduce_or_sync()",
      "__reduce_xor_sync()"};
  return call == WarpCall::other ? name_of(kind) : kNames[static_cast<std::size_t>(call)];
}

constexpr const char* kSameForAll =
    "Every thread of a block has to reach the same __syncthreads(): take it out of the branch, or "
    "let the threads that have nothing to do come along";
constexpr const char* kSameForWarp =
    "The threads of a warp have to reach the same bar.sync or bar.arrive: let whole warps take a "
    "branch, or take it out";
constexpr const char* kMaskAdvice =
    "Let all lanes that the mask names make this call, or name in it only those that do: "
    "0xffffffff is for code that the whole warp reaches";
constexpr const char* kSourceAdvice =
    "Take a value only from a lane that makes this call, too, and that its mask names";

std::string_view left_out_file;
int left_out_line = 0;

}  // namespace

BlockRunner& block_runner() {
  if (running == nullptr) grid_runner();
  return *running;
}

void leave_out_barrier(std::string_view file, int line) {
  left_out_file = file;
  left_out_line = line;
}

bool is_left_out(Place place) {
  return place.line == left_out_line && std::string_view(place.file).ends_with(left_out_file);
}

BlockRunner::BlockRunner() : all_(new Thread[kMaxThreads]) {}

void BlockRunner::begin_grid(dim3 grid, dim3 block, const std::function<void()>& body) {
  gridDim = grid;
  blockDim = block;
  body_ = &body;
  threads_in_block_ = static_cast<int>(block.x * block.y * block.z);
  is_reversed_ = grid_runner().is_order_changed();
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
  shared_memory().begin_block();
  watcher().block_begins();
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
  if (progress_ != Progress::waits) watcher().block_ends();
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
  Watcher::enter_kernel();
  (*body_)();
  Watcher::leave_kernel();
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

void BlockRunner::give_way() {
  const bool is_in_cluster = grid_runner().cluster() != nullptr;  // of which all blocks run
  if (sampler().is_on() && !is_in_cluster) {
    sampler().obstruct("its blocks wait for each other");
    stop();
  }
  if (!grid_runner().has_others()) return;
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
  if (any) watcher().all_paused();
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
  Watcher::leave_kernel();
  all_[current_].fiber.switch_to(main_);
}

int BlockRunner::barrier(Place place, bool predicate) {
  const NotWatching pause;
  keep_way();
  const Arrival arrival = arrival_at(place, stack_end());
  if (at_barrier_ == 0) {
    barrier_ = arrival;
    first_at_barrier_ = current_;
  } else if (arrival != barrier_) {
    report_if_elsewhere(arrival, barrier_, first_at_barrier_, false);
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
  if (live_ < threads_in_block_) report_gone_of_warp();
  if (is_watching) watcher().barrier_passed(barrier_.place, live_);
  std::fill_n(ways_.begin(), threads_in_block_, 0);
  at_barrier_ = 0;
  agreed_ = std::exchange(agreeing_, 0);
  storage_uses_.clear();
  for (Warp& warp : warps_) warp.ready |= std::exchange(warp.at_barrier, 0);
}

std::uint32_t BlockRunner::meet(
    Meeting kind, std::uint32_t mask, std::uint32_t value, int source, Place place,
    std::array<std::uint32_t, kWarpThreads>* all) {
  const NotWatching pause;
  keep_way();
  const std::uint32_t own_bit = 1u << lane();
  if ((mask & own_bit) == 0) {
    report_unnamed(kind, mask, place);
    stop();
  }
  Thread& me = all_[current_];
  me.place = place;
  me.kind = kind;
  me.mask = mask;
  me.value = value;
  me.source = source;
  me.all = all;
  warps_[warp()].ready &= ~own_bit;
  warps_[warp()].meeting |= own_bit;
  if (try_to_meet(warp(), mask)) {
    way = 0;
  } else {
    wait();
  }
  return me.value;
}

/// Completes a meeting if every lane that it needs is there.
bool BlockRunner::try_to_meet(int warp_number, std::uint32_t mask) {
  Warp& warp = warps_[warp_number];
  const std::uint32_t needed = mask & warp.exists & ~warp.returned;
  if ((warp.meeting & needed) != needed) return false;
  // A lane that waits with another mask may come to this meeting later.
  for (std::uint32_t lanes = needed; lanes != 0; lanes &= lanes - 1) {
    if (thread_of(warp_number, std::countr_zero(lanes)).mask != mask) return false;
  }

  const int first_lane = std::countr_zero(needed);
  const Thread& first = thread_of(warp_number, first_lane);
  std::array<std::uint32_t, kWarpThreads> values{};
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    if ((needed >> lane & 1) == 0) continue;
    const Thread& thread = thread_of(warp_number, lane);
    values[lane] = thread.value;
    if (thread.kind != first.kind || !same_call(thread.place, first.place)) {
      report_other_meeting(warp_number, lane, first_lane);
      stop();
    }
  }
  if ((mask & warp.returned) != 0 && first.kind == Meeting::shuffle) {
    report_returned(warp_number, mask & warp.returned, first_lane);
  }

  std::uint32_t ballot = 0;
  const bool is_recorded = is_watching && watcher().recorder().is_on();
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    if ((needed >> lane & 1) != 0 && values[lane] != 0) ballot |= 1u << lane;
  }
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    if ((needed >> lane & 1) == 0) continue;
    Thread& thread = thread_of(warp_number, lane);
    way_of(warp_number, lane) = 0;
    if (thread.kind == Meeting::ballot) thread.value = ballot;
    if (thread.kind == Meeting::exchange) {
      thread.value = needed;
      *thread.all = values;
    }
    if (thread.kind == Meeting::shuffle) {
      if (is_recorded) {
        const int base = warp_number * kWarpThreads;
        watcher().recorder().shuffle(first.place, base + lane, base + thread.source, values[lane]);
      }
      if ((needed >> thread.source & 1) != 0) {
        thread.value = values[thread.source];
      } else {
        report_absent_source(warp_number, lane);
      }
    }
  }
  if (is_watching) watcher().lanes_met(first.kind, warp_number, needed, first.place);
  warp.meeting &= ~needed;
  warp.ready |= needed;
  return true;
}

void BlockRunner::use_warp_storage(const void* storage, Place place) {
  const NotWatching pause;
  const auto use = std::find_if(storage_uses_.begin(), storage_uses_.end(), [&](const auto& other) {
    return other.storage == storage;
  });
  if (use == storage_uses_.end()) {
    storage_uses_.push_back({storage, warp(), place});
  } else if (use->warp != warp()) {
    report_shared_storage(*use, place);
  }
}

// The mistakes. Each is described once for each pair of lines.

void BlockRunner::report_if_elsewhere(
    const Arrival& arrival, const Arrival& of_other, int other, bool is_named) {
  const NotWatching pause;
  const auto lines = difference(arrival, of_other);
  if (!lines) return;
  const std::string here = place_text(lines->first);
  const std::string there = place_text(lines->second);
  const bool is_same_line = same_place(arrival.place, of_other.place);
  report(
      "barriers " + here + there, arrival.place, current_, is_named ? kSameForWarp : kSameForAll,
      "thread {} {} this {}{}, and thread {}{} at {}", current_, is_named ? "comes to" : "waits at",
      is_named ? "barrier" : "__syncthreads()", is_same_line ? ", called at " + here : "", other,
      is_named ? " of its warp" : "",
      (is_same_line ? "the same, called at " : "another, at ") + there);
}

/// A barrier does not wait for a warp that has returned, but wants a warp as a whole.
void BlockRunner::report_gone_of_warp() {
  const auto part = std::find_if(warps_.begin(), warps_.end(), [](const Warp& warp) {
    return warp.returned != 0 && warp.at_barrier != 0;
  });
  if (part == warps_.end()) return;
  const auto gone =
      static_cast<int>(part - warps_.begin()) * kWarpThreads + std::countr_zero(part->returned);
  report(
      "gone " + text_of(barrier_.place), barrier_.place, gone, kSameForAll,
      "thread {} has returned, and {} wait{} for it at this __syncthreads()", gone,
      live_ == 1 ? "another" : fmt::format("{} others", live_), live_ == 1 ? "s" : "");
}

void BlockRunner::report_unnamed(Meeting kind, std::uint32_t mask, Place place) {
  report(
      "unnamed " + text_of(place), place, current_, kMaskAdvice,
      "thread {} calls {} with a mask, {:#010x}, that does not name its own lane, {}", current_,
      name_of(kind), mask, lane());
}

void BlockRunner::report_other_meeting(int warp, int lane, int first_lane) {
  const Thread& thread = thread_of(warp, lane);
  const Thread& first = thread_of(warp, first_lane);
  report(
      "meeting " + text_of(thread.place) + text_of(first.place), thread.place,
      warp * kWarpThreads + lane, kMaskAdvice,
      "lane {} of warp {} meets lane {} here, which is in another call ({}, mask {:#010x}, at {}) "
      "than its own ({}, mask {:#010x})",
      lane, warp, first_lane, name_of(first.kind, first.place.call), first.mask,
      text_of(first.place), name_of(thread.kind, thread.place.call), thread.mask);
}

void BlockRunner::report_returned(int warp, std::uint32_t gone, int lane) {
  const Place place = thread_of(warp, lane).place;
  report(
      "returned " + text_of(place), place, warp * kWarpThreads + lane, kMaskAdvice,
      "the mask of this shuffle names {} of warp {}, which {} returned", lanes_of(gone), warp,
      std::popcount(gone) == 1 ? "has" : "have");
}

void BlockRunner::report_absent_source(int warp, int lane) {
  const Thread& thread = thread_of(warp, lane);
  report(
      "source " + text_of(thread.place), thread.place, warp * kWarpThreads + lane, kSourceAdvice,
      "lane {} of warp {} takes a value from lane {}, which takes no part in this shuffle", lane,
      warp, thread.source);
}

void BlockRunner::report_distance(int distance, Place place) {
  const NotWatching pause;
  report(
      "distance " + text_of(place), place, current_,
      "A warp has 32 lanes, so distances are 0 to 31: sums of more threads go through shared "
      "memory",
      "lane {} shuffles over a distance of {}, which leaves the warp", lane(), distance);
}

void BlockRunner::report_launch_bounds(int threads, Place place) {
  Watcher::leave_kernel();
  report(
      "launch bounds " + text_of(place), place, current_,
      "A GPU refuses such a launch: let the numbers agree",
      "the launch has {} threads in a block, and the kernel's __launch_bounds__ promise {} at most",
      threads_in_block_, threads);
  stop();
}

void BlockRunner::report_cluster(int wanted, int now, Place place) {
  Watcher::leave_kernel();
  report(
      "cluster dims " + text_of(place), place, current_,
      "A GPU refuses such a launch: let the numbers agree",
      "the kernel's __cluster_dims__ ask for clusters of {} blocks, and the launch has {}", wanted,
      now == 1 ? fmt::format("{} blocks", gridDim.x) : fmt::format("clusters of {}", now));
  stop();
}

void BlockRunner::report_no_count(Place place) {
  Watcher::leave_kernel();
  report(
      "no count " + text_of(place), place, current_,
      "Let one thread call init(&barrier, threads), and put __syncthreads() behind it",
      "thread {} arrives at a barrier that does not know yet how many threads it waits for",
      current_);
  stop();
}

void BlockRunner::report_no_arrival(Place place, int arrived, int expected) {
  Watcher::leave_kernel();
  report(
      "no arrival " + text_of(place), place, current_,
      "Let as many threads arrive as the barrier expects",
      "thread {} waits at a barrier for {} threads, of which {} never arrive", current_, expected,
      expected - arrived);
  stop();
}

void BlockRunner::report_no_bytes(Place place, int bytes) {
  Watcher::leave_kernel();
  report(
      "no bytes " + text_of(place), place, current_,
      "Let the barrier expect as many bytes as are copied or stored with it",
      "thread {} waits at a barrier {}", current_,
      bytes > 0 ? fmt::format("for {} bytes that never come", bytes)
                : fmt::format("to which {} bytes came that it does not expect", -bytes));
  stop();
}

void BlockRunner::report_bulk_size(unsigned bytes, Place place) {
  Watcher::leave_kernel();
  report(
      "bulk size " + text_of(place), place, current_,
      "cp.async.bulk moves whole vectors of 16 bytes: copy the rest in another way",
      "thread {} copies {} bytes, which are no multiple of {}", current_, bytes, kBulkBytes);
  stop();
}

void BlockRunner::report_storage_outside(const void* storage, Place place) {
  const NotWatching pause;
  if (shared_memory().contains(storage)) {
    return report(
        "storage beyond " + text_of(place), place, current_,
        "Compare the index with the size of the array",
        "thread {} reduces with a TempStorage that is beyond {}", current_,
        shared_memory().nearest(shared_memory().offset_of(storage)).name);
  }
  report(
      "storage outside " + text_of(place), place, current_,
      "Declare it __shared__: the threads exchange their values through it",
      "thread {} reduces with a TempStorage that is not in shared memory", current_);
}

void BlockRunner::report_shared_storage(const StorageUse& other, Place place) {
  const std::size_t offset = shared_memory().offset_of(other.storage);
  report(
      "storage " + text_of(place) + text_of(other.place), place, current_,
      "Give each warp a TempStorage of its own, or put __syncthreads() between the two",
      "warp {} uses the TempStorage {} here, warp {} uses it at {}, and no barrier is between them",
      warp(), element_text(shared_memory().nearest(offset), offset), other.warp,
      text_of(other.place));
}

/// Nobody can go on. At the barrier alone that cannot be: the last to come releases it.
void BlockRunner::report_deadlock() {
  int waiting = 0;
  while ((warps_[waiting / kWarpThreads].meeting >> waiting % kWarpThreads & 1) == 0) ++waiting;
  const Thread& thread = all_[waiting];
  const int warp = waiting / kWarpThreads;
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    const bool is_meeting = (thread.mask & warps_[warp].meeting) >> lane & 1;
    if (is_meeting && thread_of(warp, lane).mask != thread.mask) {
      return report_other_meeting(warp, lane, waiting % kWarpThreads);
    }
  }
  // Those that it waits for are at the barrier, or in a meeting that waits for others in turn.
  const std::uint32_t missing = thread.mask & warps_[warp].at_barrier;
  std::string elsewhere;
  if (missing != 0) {
    elsewhere = fmt::format(
        ": lane {} waits at the __syncthreads() at {}", std::countr_zero(missing),
        text_of(barrier_.place));
  }
  report(
      "deadlock " + text_of(thread.place), thread.place, waiting, kMaskAdvice,
      "lane {} of warp {} waits in {} for {}, which never arrive{}{}", waiting % kWarpThreads, warp,
      name_of(thread.kind),
      lanes_of(missing != 0 ? missing : thread.mask & ~(1u << waiting % kWarpThreads)),
      std::popcount(missing) == 1 ? "s" : "", elsewhere);
}

}  // namespace rmsnorm::cpu_device
