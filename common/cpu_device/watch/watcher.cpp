#include "common/cpu_device/watch/watcher.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "common/cpu_device/runtime/memory.hpp"
#include "common/cpu_device/runtime/source_lines.hpp"
#include "common/cpu_device/scheduler/grid.hpp"
#include "common/cpu_device/scheduler/sampler.hpp"
#include "common/cpu_device/scheduler/shared_memory.hpp"

// The program's static data that can change, and the part of it that is the device's (rewrite.cpp).
extern "C" const char __data_start;
extern "C" const char __start_rmsnorm_device;
extern "C" const char __stop_rmsnorm_device;

namespace rmsnorm::cpu_device {

void Watcher::start(std::vector<KnownMemory> tensors, bool records_steps) {
  bounds_.start(std::move(tensors));
  races_.start();
  counter_.start();
  recorder_.start(records_steps);
  suspended_.clear();
  polls_ = false;
  is_on_ = true;
}

LaunchCounts Watcher::stop() {
  is_on_ = false;
  LaunchCounts counts = counter_.result();
  counts.polls = polls_;
  counts.steps = recorder_.take();
  return counts;
}

void Watcher::launch_begins(
    const void* kernel, const void* arguments, std::size_t argument_bytes, bool may_overlap) {
  kernel_ = kernel;
  arguments_ = static_cast<const char*>(arguments);
  argument_bytes_ = argument_bytes;
  may_overlap_ = may_overlap;
  views_.begin_launch();
  races_.begin_launch();
  order_.begin_launch(bounds_.has_ranks());
  old_values_.begin_launch();
  pending_store_.reset();  // of a launch that was stopped
}

void Watcher::block_begins() {
  if (!is_on_) return;
  counter_.block_begins(may_overlap_);
  recorder_.block_begins();
  Cluster* const cluster = grid_.cluster();
  order_.begin_block(
      running->threads(), cluster == nullptr ? 0 : cluster->number(), bounds_.own_rank());
  races_.begin_block();
  overlap_ = {};
  has_race_in_block_ = false;
}

void Watcher::block_ends() {
  if (!is_on_) return;
  settle();
  counter_.flush_block();
  if (recorder_.is_on()) recorder_.flush_block();
  if (overlap_.has_triggered.none()) return;
  const auto threads = static_cast<int>(overlap_.has_triggered.count());
  counter_.synchronization(
      overlap_.is_trigger_late ? "late trigger" : "trigger", overlap_.trigger, threads);
}

void Watcher::swap_block(BlockState& other) {
  if (!is_on_) return;
  settle();
  counter_.swap_block(other.counter);
  order_.swap_block(other.order);
  races_.swap_block(other.races);
  std::swap(overlap_, other.overlap);
}

// A kernel's file brings copies of the standard library's templates, which are watched, and the
// linker may take one of them for this code, too.

void Watcher::barrier_passed(SourceLocation location, int threads) {
  if (!is_on_) return;
  const NotWatching guard;
  counter_.flush_block();
  counter_.synchronization("barrier", location, threads);
  settle();
  // As on a GPU, a barrier does not wait for warps that have returned.
  if (has_race_in_block_ && threads < running->threads())
    mistake(mistakes::kBarrierOfSome, location, running->current(), {threads, running->threads()});
  if (recorder_.is_on()) {
    recorder_.flush_block();
    recorder_.barrier(location);
  }
  order_.barrier();
  if (overlap_.has_waited.any()) overlap_.has_waited.set();  // it orders the others, too
}

void Watcher::block_synced() {
  if (!is_on_) return;
  const NotWatching guard;
  settle();
  order_.barrier();
}

void Watcher::cluster_arrived(bool is_ordered) {
  if (!is_on_) return;
  const NotWatching guard;
  settle();
  order_.arrive(running->current(), is_ordered);
}

void Watcher::release_arrivals(const void* flag) {
  const NotWatching guard;
  if (is_on_) order_.release_arrivals(flag_at(flag));
}

void Watcher::cluster_barrier_passed(SourceLocation location, int threads) {
  if (!is_on_) return;
  const NotWatching guard;
  counter_.flush_block();
  counter_.synchronization("barrier", location, threads);
  block_synced();
}

void Watcher::release(const void* flag, Scope scope) {
  if (!is_on_) return;
  const NotWatching guard;
  order_.release({flag_at(flag), running->current(), scope, true, true});
}

void Watcher::acquire(const void* flag, Scope scope) {
  if (!is_on_) return;
  const NotWatching guard;
  order_.acquire({flag_at(flag), running->current(), scope, true});
}

void Watcher::grid_dependency_synced() {
  if (is_on_) overlap_.has_waited.set(static_cast<std::size_t>(running->current()));
}

void Watcher::launch_completion_triggered(SourceLocation location) {
  if (!is_on_) return;
  const NotWatching guard;
  if (overlap_.has_triggered.none()) overlap_.trigger = location;
  overlap_.has_triggered.set(static_cast<std::size_t>(running->current()));
}

void Watcher::collective_done(
    Collective kind, int warp, std::uint32_t lanes, SourceLocation location) {
  if (!is_on_) return;
  const NotWatching guard;
  settle();
  collectives_[static_cast<std::size_t>(warp)] = order_.epoch();
  if (kind == Collective::sync) order_.sync_warp(warp, lanes);
  if (lanes == 0xffffffff) counter_.flush_warp(warp);
  if (lanes == 0xffffffff && recorder_.is_on()) recorder_.flush_warp(warp);
  if (kind == Collective::shuffle)
    counter_.synchronization("shuffle", location, std::popcount(lanes));
}

void Watcher::access(Access&& access) {
  if (!in_watched_kernel) return;
  const NotWatching guard;
  settle();
  if (in_host_code_) return host_access(access);
  std::tie(access.address, access.policy) = views_.resolve(access.address);
  const void* const address = access.address;
  if (running->stacks().contains(address)) return;  // the thread's own variables
  if (running->shared().contains(address)) return shared_access(access);
  if (Cluster* const cluster = grid_.cluster(); cluster != nullptr) {
    const int rank = grid_.rank();
    const SharedByte byte = cluster->find(rank, address);
    if (byte.rank >= 0) {
      cluster->on_remote_access(rank, byte.rank, access);
      return remote_access(access, byte);
    }
  }
  if (is_in(address, arguments_, argument_bytes_)) return;
  if (is_of_program(address)) return variable_access(access);
  global_access(access);
}

void Watcher::shuffled(
    SourceLocation location, int warp, std::uint32_t lanes, const Lanes& values,
    const Lanes& sources) {
  if (!is_on_ || !recorder_.is_on()) return;
  const NotWatching guard;
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const int base = warp * kWarpThreads;
    recorder_.shuffle(location, base + lane, base + static_cast<int>(sources[lane]), values[lane]);
  }
}

void Watcher::fence(Scope scope, bool is_sc) {
  const NotWatching guard;
  if (!is_on_) return;
  settle();
  const int thread = running->current();
  if (is_sc && sees_old_values()) old_values_.fence(order_.now(thread), scope, order_.widest());
  order_.fence(thread, scope);
}

void Watcher::freed(const void* data) {
  if (!is_on_) return;
  bounds_.freed(data);
  races_.freed(data);
}

void Watcher::filled(const void* data, std::size_t bytes) {
  if (!is_on_) return;
  for (const KnownMemory& memory : bounds_.memory()) {
    if (memory.may_change) {
      races_.filled(memory, data, bytes);
    } else if (is_in(data, memory.data, memory.bytes)) {
      hazards_.add("filled " + memory.name, [&] {
        return hazard_of_host(mistakes::kInputFilled, {}, {memory.name});
      });
    }
  }
}

void Watcher::read_only(const void* pc, const void* data, int bytes) {
  if (!is_on_ || !in_watched_kernel || grid_.sampler().is_on()) return;
  const NotWatching guard;
  for (const KnownMemory& memory : bounds_.memory()) {
    if (!memory.may_change || !is_in(data, memory.data, memory.bytes)) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const PastAccess* const store = races_.stored(memory, address, bytes);
    if (store == nullptr) continue;
    running->report(
        mistakes::kStaleReadOnly, pc,
        {running->current(), element_text(memory, address), place_text(line_of_call(store->pc))});
  }
}

/// Whose memory it is, where there are ranks, and whether it is one to wait, or to be waited for.
Space Watcher::space_of(const Access& access, const KnownMemory& memory) const {
  if (memory.reach != Reach::peers) return Space::global;
  const bool is_own = memory.rank == bounds_.own_rank();
  if (access.is_strong && access.kind == AccessKind::load && is_own) return Space::poll;
  const bool is_word = access.strength.parts == 1;
  if (access.is_strong && access.kind != AccessKind::load && is_word) return Space::signal;
  return is_own ? Space::global : Space::peer;
}

void Watcher::global_access(const Access& access) {
  KnownMemory& memory = bounds_.global(access);
  const auto address = reinterpret_cast<std::uintptr_t>(access.address);
  const auto thread = static_cast<std::size_t>(running->current());
  if (may_overlap_ && !overlap_.has_waited[thread]) {
    running->report(
        mistakes::kNoWait, access.pc,
        {thread, verb(access.kind), access.bytes, memory.name,
         access.kind == AccessKind::load ? "writing" : "using"});
  }
  if (access.kind != AccessKind::load && !overlap_.has_triggered[thread]) {
    overlap_.is_trigger_late = true;
  }
  if (access.is_bulk) {
    counter_.bulk_load(access, memory.name);
  } else if (access.strength.parts != 0) {
    Access whole = access;
    whole.bytes *= access.strength.parts;
    // Others may run meanwhile.
    counter_.access(whole, space_of(access, memory), memory.name, address);
    if (recorder_.is_on()) recorder_.access(whole, false, memory.name, memory.data);
  }
  if (grid_.sampler().is_on()) grid_.sampler().access(access);
  if (!memory.may_change) {
    if (access.kind == AccessKind::load) return;
    running->report(
        mistakes::kInputWritten, access.pc,
        {thread, verb(access.kind), element_text(memory, address)});
    return;
  }
  if (grid_.sampler().is_on()) return;  // too large to keep what was done to each word
  const Finding finding = races_.access(memory, address, access.bytes, past_of(access));
  if (finding.is_wrong()) report(finding, access, element_text(memory, address), false);
}

/// __device__ variables begin with values, and are in no allocation.
void Watcher::device_variable_access(const Access& access) {
  if (is_built_in(access.address)) return;
  static const KnownMemory all = {
      "", &__start_rmsnorm_device,
      static_cast<std::size_t>(&__stop_rmsnorm_device - &__start_rmsnorm_device), sizeof(float)};
  if (grid_.sampler().is_on()) return grid_.sampler().access(access);
  const auto address = reinterpret_cast<std::uintptr_t>(access.address);
  const Finding finding = races_.access(all, address, access.bytes, past_of(access));
  if (!finding.is_race) return;
  const std::string name = name_of_variable(access.address);  // or where the section begins
  found_race(access, finding.other, name.starts_with("__") ? "a __device__ variable" : name);
}

/// A kernel does not see the host's variables, but for constants.
void Watcher::variable_access(const Access& access) {
  const auto* const at = static_cast<const char*>(access.address);
  if (&__start_rmsnorm_device <= at && at < &__stop_rmsnorm_device) {
    return device_variable_access(access);
  }
  if (at < &__data_start) return;
  const auto [found, is_new] = variables_.try_emplace(at, "");
  std::string& name = found->second;
  if (is_new) {
    name = name_of_variable(at);
    const void* value = nullptr;  // as extern __shared__ arrays outside of all functions have one
    if (access.bytes == sizeof value) std::memcpy(&value, at, sizeof value);
    const bool is_own = name.empty() || name.starts_with("rmsnorm::");
    // Behind an array of the device's lies what the device itself needs.
    const bool is_overrun = is_own && access.kind != AccessKind::load &&
                            owner_of(own_line_of_call(access.pc).file).empty();
    if (is_overrun) {
      name = "what lies behind the device's variables";
    } else if (
        name.starts_with("rmsnorm::cpu_device::") || name.starts_with("rmsnorm_shared_") ||
        running->shared().contains(value)) {
      name.clear();
    }
  }
  if (name.empty()) return;
  const std::vector<FormatArg> args = {running->current(), verb(access.kind), name};
  hazards_.add("variable " + name, [&] {
    return hazard_of(mistakes::kVariableOfHost, line_of_call(access.pc), running->current(), args);
  });
  if (access.kind == AccessKind::load) return;
  runtime_.errors.set_fault(cudaErrorIllegalAddress);
  running->stop();  // before anything is overwritten
}

void Watcher::copy_made(const void* host) {
  const auto made = std::ranges::find(queued_copies_, host, &QueuedCopy::host);
  if (made != queued_copies_.end()) queued_copies_.erase(made);
}

/// The device's memory is not the host's, nor is, until it is waited for, that of a copy.
void Watcher::host_access(const Access& access) {
  // A file brings copies of the standard library's templates, which the device itself may run.
  if (user_lines(access.pc).empty()) return;
  for (const QueuedCopy& copy : queued_copies_) {
    if (!is_in(access.address, copy.host, copy.bytes)) continue;
    if (!copy.writes && access.kind == AccessKind::load) continue;
    const SourceLine line = line_of_call(access.pc);
    hazards_.add("copy " + place_text(line), [&] {
      return hazard_of_host(
          mistakes::kCopyNotMade, line, {verb(access.kind), copy.writes ? "write" : "read"});
    });
    return;
  }
  const Allocation* const found = runtime_.memory.find(access.address);
  if (found == nullptr || found->type != cudaMemoryTypeDevice) return;
  const SourceLine line = line_of_call(access.pc);
  hazards_.add("host " + place_text(line), [&] {
    return hazard_of_host(
        mistakes::kHostAccess, line, {verb(access.kind), bounds_.name_of(access.address)});
  });
}

/// An access to a variable of a block, which the blocks of a cluster share.
Finding Watcher::access_of_cluster(
    const SharedPiece& piece, const SharedByte& byte, const Access& access,
    const PastAccess& past) {
  const char* const begin = grid_.cluster()->memory(byte.rank) - SharedMemory::kFirstByte;
  const KnownMemory memory = {
      piece.name, begin + piece.begin, piece.bytes, static_cast<int>(piece.element_bytes), false};
  return races_.access(
      memory, reinterpret_cast<std::uintptr_t>(begin + byte.offset), access.bytes, past);
}

/// An access to the shared memory of another block of the cluster.
void Watcher::remote_access(const Access& access, const SharedByte& byte) {
  Access own = access;  // as if it were the block's own
  own.address = running->shared().begin() + byte.offset;
  const SharedPiece& piece = bounds_.shared(own);
  counter_.access(own, Space::remote, piece.name, byte.offset);
  const Finding finding = access_of_cluster(piece, byte, access, past_of(access));
  if (!finding.is_wrong()) return;
  report(finding, access, element_text(piece, byte.offset) + " of another block", true);
}

void Watcher::remote_store_issued(const Access& access, const SharedByte& byte) {
  if (!is_on_) return;
  const NotWatching guard;
  Access own = access;
  own.address = running->shared().begin() + byte.offset;
  counter_.access(own, Space::remote, bounds_.shared(own).name, byte.offset);
}

void Watcher::shared_access(const Access& access) {
  const SharedPiece& piece = bounds_.shared(access);
  const std::size_t offset = running->shared().offset_of(access.address);
  // Others may run meanwhile. What comes by itself is no request of a warp.
  if (!access.is_bulk) counter_.access(access, Space::shared, piece.name, offset);
  if (!access.is_bulk && recorder_.is_on()) {
    recorder_.access(access, true, piece.name, running->shared().begin() + piece.begin);
  }
  const PastAccess past = past_of(access);
  Finding finding = races_.access(offset, access.bytes, past);
  if (grid_.cluster() != nullptr) {  // other blocks may touch it, too
    const Finding more = access_of_cluster(piece, {grid_.rank(), offset}, access, past);
    const bool is_unwritten = finding.is_unwritten && more.is_unwritten;
    if (!finding.is_race) finding = more;
    finding.is_unwritten = is_unwritten;
  }
  if (finding.is_wrong()) report(finding, access, element_text(piece, offset), true);
}

}  // namespace rmsnorm::cpu_device
