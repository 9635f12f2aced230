#include "common/cpu_device/watcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "common/cpu_device/grid.hpp"
#include "common/cpu_device/memory.hpp"
#include "common/cpu_device/sampler.hpp"
#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/source_lines.hpp"

// The program's static data that can change, and the part of it that is the device's (rewrite.cpp).
extern "C" const char __data_start;
extern "C" const char __start_rmsnorm_device;
extern "C" const char __stop_rmsnorm_device;

namespace rmsnorm::cpu_device {
namespace {

constexpr const char* kInput =
    "It is an input: others may read it at the same time, and want it unchanged";

// Accesses that come too early. Each mistake is reported once for its lines.

/// A load of what has no value yet.
void report_unwritten(const Access& access, const std::string& element, bool is_shared) {
  hazards().add("unwritten " + place_text(line_of_call(access.pc)), [&] {
    Hazard found = hazard_at(
        access.pc,
        fmt::format(
            "thread {} reads {}, which no thread{} has written before", block_runner().current(),
            element, is_shared ? " of this block" : ""),
        is_shared ? "Shared memory begins with no value: let a thread write it first"
                  : "An output or a workspace begins with no value: write it first");
    found.is_symptom = true;  // or one thread does, too late: then there is a race as well
    return found;
  });
}

/// A store to an input.
void report_input(const Access& access, const std::string& element) {
  hazards().add("input " + place_text(line_of_call(access.pc)), [&] {
    return hazard_at(
        access.pc,
        fmt::format("thread {} {} {}", block_runner().current(), verb(access.touch), element),
        kInput);
  });
}

/// An access to the tensor `of` that does not wait for the kernel before.
void report_no_wait(const Access& access, const std::string& of) {
  hazards().add("no wait " + place_text(line_of_call(access.pc)), [&] {
    return hazard_at(
        access.pc,
        fmt::format(
            "{} of {} before cudaGridDependencySynchronize(): the kernel before may still be {} it",
            who_text(access), of, access.touch == Touch::load ? "writing" : "using"),
        "The launch may overlap the one before it: let the thread wait first");
  });
}

}  // namespace

void Watcher::start(std::vector<KnownMemory> tensors, bool records_steps) {
  bounds_.start(std::move(tensors));
  races_.start();
  counter_.start();
  recorder_.start(records_steps);
  is_watching = true;
}

LaunchCounts Watcher::stop() {
  is_watching = false;
  LaunchCounts counts = counter_.result();
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
  order_.begin_launch();
}

std::string Watcher::kernel() const {
  return name_of_function(kernel_);
}

void Watcher::block_begins() {
  if (!is_watching) return;
  counter_.block_begins(may_overlap_);
  recorder_.block_begins();
  order_.begin_block(block_runner().threads());
  races_.begin_block();
  overlap_ = {};
}

void Watcher::block_ends() {
  if (!is_watching) return;
  settle();
  counter_.block_met();
  if (recorder_.is_on()) recorder_.block_met();
  if (overlap_.has_triggered.none()) return;
  const auto threads = static_cast<int>(overlap_.has_triggered.count());
  counter_.meeting(
      overlap_.is_trigger_late ? "late trigger" : "trigger", overlap_.trigger, threads);
}

void Watcher::add_padding(std::size_t offset) {
  if (is_watching) races_.add_padding(offset - SharedMemory::kFirstByte);
}

void Watcher::swap_block(OfBlock& other) {
  if (!is_watching) return;
  settle();
  counter_.swap_block(other.counter);
  order_.swap_block(other.order);
  races_.swap_block(other.races);
  std::swap(overlap_, other.overlap);
}

void Watcher::all_paused() {
  if (is_watching) counter_.all_paused();
}

// A kernel's file brings copies of the standard library's templates, which are watched, and the
// linker may take one of them for this code, too.

void Watcher::barrier_passed(Place place, int threads) {
  if (!is_watching) return;
  const NotWatching pause;
  counter_.block_met();
  counter_.meeting("barrier", place, threads);
  settle();
  if (recorder_.is_on()) {
    recorder_.block_met();
    recorder_.barrier(place);
  }
  order_.barrier();
  if (overlap_.has_waited.any()) overlap_.has_waited.set();  // it orders the others, too
}

void Watcher::all_met() {
  if (!is_watching) return;
  const NotWatching pause;
  settle();
  order_.barrier();
}

void Watcher::arrives(bool is_ordered) {
  if (!is_watching) return;
  const NotWatching pause;
  settle();
  order_.arrive(block_runner().current(), is_ordered);
}

void Watcher::hand_on_arrivals(const void* place) {
  const NotWatching pause;
  if (is_watching) order_.publish_arrivals(flag_at(place));
}

void Watcher::barrier_of_cluster(Place place, int threads) {
  if (!is_watching) return;
  const NotWatching pause;
  counter_.block_met();
  counter_.meeting("barrier", place, threads);
  all_met();
}

void Watcher::forget(const void* data, std::size_t bytes) {
  if (is_watching) races_.forget(data, bytes);
}

void Watcher::hand_on(const void* place) {
  if (!is_watching) return;
  const NotWatching pause;
  const int thread = block_runner().current();
  order_.fence(thread, Scope::block);
  order_.publish(flag_at(place), thread, true);
}

void Watcher::take(const void* place) {
  if (!is_watching) return;
  const NotWatching pause;
  order_.acquire(flag_at(place), block_runner().current());
}

void Watcher::kernel_before_ended() {
  if (is_watching) overlap_.has_waited.set(static_cast<std::size_t>(block_runner().current()));
}

void Watcher::triggered(Place place) {
  if (!is_watching) return;
  const NotWatching pause;
  if (overlap_.has_triggered.none()) overlap_.trigger = place;
  overlap_.has_triggered.set(static_cast<std::size_t>(block_runner().current()));
}

void Watcher::lanes_met(Meeting kind, int warp, std::uint32_t lanes, Place place) {
  if (!is_watching) return;
  const NotWatching pause;
  settle();
  if (kind == Meeting::sync) order_.sync_warp(warp, lanes);
  if (lanes == 0xffffffff) counter_.warp_met(warp);
  if (lanes == 0xffffffff && recorder_.is_on()) recorder_.warp_met(warp);
  if (kind == Meeting::shuffle) counter_.meeting("shuffle", place, std::popcount(lanes));
}

void Watcher::access(Access&& access) {
  if (!in_watched_kernel) return;
  const NotWatching pause;
  settle();
  if (in_host_code) return host_access(access);
  std::tie(access.address, access.policy) = views_.resolve(access.address);
  const void* const address = access.address;
  if (block_runner().stacks().contains(address)) return;  // the thread's own variables
  if (shared_memory().contains(address)) return shared_access(access);
  if (Cluster* const cluster = grid_runner().cluster(); cluster != nullptr) {
    const int rank = grid_runner().rank();
    const SharedByte byte = cluster->find(rank, address);
    if (byte.rank >= 0) {
      cluster->touch(rank, byte.rank, access);
      return remote_access(access, byte);
    }
  }
  if (is_in(address, arguments_, argument_bytes_)) return;
  if (is_of_program(address)) return variable_access(access);
  global_access(access);
}

void Watcher::fence(Scope scope) {
  const NotWatching pause;
  if (is_watching) order_.fence(block_runner().current(), scope);
}

void Watcher::allocated(const void* data, std::size_t bytes) {
  if (is_watching) bounds_.allocated(data, bytes);
}

void Watcher::freed(const void* data) {
  if (!is_watching) return;
  bounds_.freed(data);
  races_.freed(data);
}

void Watcher::filled(const void* data, std::size_t bytes) {
  if (!is_watching) return;
  for (const KnownMemory& memory : bounds_.memory()) {
    if (memory.may_change) {
      races_.filled(memory, data, bytes);
    } else if (is_in(data, memory.data, memory.bytes)) {
      hazards().add("filled " + memory.name, [&] {
        return Hazard{
            .file = {},
            .line = 0,
            .what = fmt::format("a copy or a memset changes {}", memory.name),
            .advice = kInput,
            .kernel = {},
            .block = {},
            .thread = {}};
      });
    }
  }
}

void Watcher::read_only(const void* pc, const void* data, int bytes) {
  if (!is_watching || !in_watched_kernel || sampler().is_on()) return;
  const NotWatching pause;
  for (const KnownMemory& memory : bounds_.memory()) {
    if (!memory.may_change || !is_in(data, memory.data, memory.bytes)) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    const Past* const store = races_.stored(memory, address, bytes);
    if (store == nullptr) continue;
    hazards().add("read-only " + place_text(line_of_call(pc)), [&] {
      return hazard_at(
          pc,
          fmt::format(
              "thread {} reads {} through the cache of what never changes, but this launch wrote "
              "it at {}",
              block_runner().current(), element_text(memory, address),
              place_text(line_of_call(store->pc))),
          "__ldg() is for what no thread of the launch writes: read it without");
    });
  }
}

/// A number for the flag at an address: shared memory has the same addresses in every block.
std::uintptr_t Watcher::flag_at(const void* address) const {
  constexpr int kAddressBits = 47;
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  if (!shared_memory().contains(address)) return number;
  if (Cluster* const cluster = grid_runner().cluster(); cluster != nullptr) {  // as others see it
    return reinterpret_cast<std::uintptr_t>(
        cluster->memory(grid_runner().rank()) + shared_memory().offset_of(address));
  }
  return number ^ std::uintptr_t{order_.now(0).block} << kAddressBits;
}

/// The access as the detectors of races remember it; a flag's hands on, or takes, what is known.
Past Watcher::past_of(const Access& access) {
  const int thread = block_runner().current();
  const bool is_strong = access.touch == Touch::atomic || access.is_volatile;
  const std::uintptr_t flag = flag_at(access.address);
  if (is_strong && access.touch != Touch::store) order_.acquire(flag, thread);
  if (is_strong && access.touch != Touch::load) {
    order_.publish(flag, thread, access.touch == Touch::atomic);
  }
  Past past{order_.now(thread)};
  past.is_strong = is_strong;
  past.is_of_block = access.scope == Scope::block;
  past.touch = access.touch;
  past.pc = access.pc;
  return past;
}

/// Nothing separates an access from an earlier one.
void Watcher::found_race(
    const Access& access, const Past& other, std::string element, bool is_shared) {
  const Race race{access, block_runner().current(), other, is_shared, std::move(element)};
  if (access.touch != Touch::store || other.touch != Touch::store) return report(race);
  second_store_ = {race, {}};
  std::memcpy(
      second_store_->before.data(), access.address,
      std::min(second_store_->before.size(), static_cast<std::size_t>(access.bytes)));
}

/// Decides about a second store, now that it has happened: all is well if both stored the same.
void Watcher::settle() {
  if (!second_store_) return;
  const Access& access = second_store_->race.access;
  const auto bytes = std::min(second_store_->before.size(), static_cast<std::size_t>(access.bytes));
  if (std::memcmp(second_store_->before.data(), access.address, bytes) != 0) {
    report(second_store_->race);
  }
  second_store_.reset();
}

/// Each is reported once for its lines.
void Watcher::report(const Race& race) {
  const SourceLine here = line_of_call(race.access.pc);
  const SourceLine there = line_of_call(race.other.pc);
  const char* const does = verb(race.access.touch);
  const char* const did = verb(race.other.touch);
  const bool both_store = race.access.touch == Touch::store && race.other.touch == Touch::store;
  const bool both_atomic = race.access.touch == Touch::atomic && race.other.touch == Touch::atomic;
  const std::string key =
      "race " + place_text(std::min(here, there)) + place_text(std::max(here, there));
  hazards().add(key, [&] {
    if (race.other.block == watcher().order_.now(race.thread).block) {
      return hazard_at(
          here, race.thread,
          fmt::format(
              "a race: thread {} {} {} here, thread {} {} it at {}, and no barrier is between them",
              race.thread, does, race.element, race.other.thread, did, place_text(there)),
          both_store && here == there
              ? "Let one of the threads write it, or give each an element of its own"
              : "Put __syncthreads() between the two");
    }
    return hazard_at(
        here, race.thread,
        fmt::format(
            "a race: this block {} {} here, another {} it at {}, and nothing orders the two", does,
            race.element, did, place_text(there)),
        race.is_shared ? "Put a barrier of the cluster between the two"
        : both_atomic
            ? "What ends in _block, or has its scope, is atomic for the threads of one block alone"
        : both_store
            ? "Blocks run in any order, also at the same time: give each memory of its own, or add "
              "with atomicAdd()"
            : "Blocks run in any order, also at the same time: use a second launch or, to hand a "
              "value on, write it, call __threadfence(), and then change a flag that the other "
              "block reads, both atomically");
  });
}

void Watcher::global_access(const Access& access) {
  KnownMemory& memory = bounds_.global(access);
  const auto address = reinterpret_cast<std::uintptr_t>(access.address);
  const auto thread = static_cast<std::size_t>(block_runner().current());
  if (may_overlap_ && !overlap_.has_waited[thread]) report_no_wait(access, memory.name);
  if (access.touch != Touch::load && !overlap_.has_triggered[thread]) {
    overlap_.is_trigger_late = true;
  }
  if (access.is_bulk) {
    counter_.bulk_load(access, memory.name);
  } else {
    counter_.access(access, Space::global, memory.name, address);  // others may run meanwhile
    if (recorder_.is_on()) recorder_.access(access, false, memory.name, memory.data);
  }
  if (sampler().is_on()) sampler().access(access);
  if (!memory.may_change) {
    if (access.touch != Touch::load) report_input(access, element_text(memory, address));
    return;
  }
  if (sampler().is_on()) return;  // too large to keep what was done to each word
  const Finding finding = races_.access(memory, address, access.bytes, past_of(access));
  if (finding.is_race) found_race(access, finding.other, element_text(memory, address));
  if (finding.is_unwritten) report_unwritten(access, element_text(memory, address), false);
}

/// __device__ variables begin with values, and are in no allocation.
void Watcher::device_variable_access(const Access& access) {
  for (const void* const own :
       std::initializer_list<const void*>{&threadIdx, &blockIdx, &blockDim, &gridDim}) {
    if (is_in(access.address, own, sizeof threadIdx)) return;  // all are of one size
  }
  static const KnownMemory all = {
      "", &__start_rmsnorm_device,
      static_cast<std::size_t>(&__stop_rmsnorm_device - &__start_rmsnorm_device), sizeof(float)};
  if (sampler().is_on()) return sampler().access(access);
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
    if (name.starts_with("rmsnorm::cpu_device::") || shared_memory().contains(value)) name.clear();
  }
  if (name.empty()) return;
  hazards().add("variable " + name, [&] {
    return hazard_at(
        access.pc,
        fmt::format(
            "thread {} {} {}, a variable of the host", block_runner().current(), verb(access.touch),
            name),
        "Make it a __device__ or __constant__ variable, a constant or an argument");
  });
}

/// The device's memory is not the host's.
void Watcher::host_access(const Access& access) const {
  const Allocation* const found = find_allocation(access.address);
  if (found == nullptr || found->type != cudaMemoryTypeDevice) return;
  const SourceLine line = line_of_call(access.pc);
  hazards().add("host " + place_text(line), [&] {
    return Hazard{
        .file = line.file,
        .line = line.line,
        .what = fmt::format(
            "the host's code {} {}, which is in the device's memory", verb(access.touch),
            bounds_.name_of(access.address)),
        .advice = "Let a kernel do it, or hand over what the host needs as an argument",
        .kernel = {},
        .block = {},
        .thread = {}};
  });
}

/// An access to a variable of a block, which the blocks of a cluster share.
Finding Watcher::access_of_cluster(
    const SharedPiece& piece, const SharedByte& byte, const Access& access, const Past& past) {
  const char* const begin = grid_runner().cluster()->memory(byte.rank) - SharedMemory::kFirstByte;
  const KnownMemory memory = {
      piece.name, begin + piece.begin, piece.bytes, static_cast<int>(piece.element_bytes), false};
  return races_.access(
      memory, reinterpret_cast<std::uintptr_t>(begin + byte.offset), access.bytes, past);
}

/// An access to the shared memory of another block of the cluster.
void Watcher::remote_access(const Access& access, const SharedByte& byte) {
  Access own = access;  // as if it were the block's own
  own.address = shared_memory().begin() + byte.offset;
  const SharedPiece& piece = bounds_.shared(own);
  counter_.access(own, Space::remote, piece.name, byte.offset);
  const Finding finding = access_of_cluster(piece, byte, access, past_of(access));
  const std::string element = element_text(piece, byte.offset) + " of another block";
  if (finding.is_race) found_race(access, finding.other, element, true);
  if (finding.is_unwritten) report_unwritten(access, element, true);
}

void Watcher::sends(const Access& access, const SharedByte& byte) {
  if (!is_watching) return;
  const NotWatching pause;
  Access own = access;
  own.address = shared_memory().begin() + byte.offset;
  counter_.access(own, Space::remote, bounds_.shared(own).name, byte.offset);
}

void Watcher::shared_access(const Access& access) {
  const SharedPiece& piece = bounds_.shared(access);
  const std::size_t offset = shared_memory().offset_of(access.address);
  // Others may run meanwhile. What comes by itself is no request of a warp.
  if (!access.is_bulk) counter_.access(access, Space::shared, piece.name, offset);
  if (!access.is_bulk && recorder_.is_on()) {
    recorder_.access(access, true, piece.name, shared_memory().begin() + piece.begin);
  }
  const Past past = past_of(access);
  Finding finding = races_.access(offset - SharedMemory::kFirstByte, access.bytes, past);
  if (grid_runner().cluster() != nullptr) {  // other blocks may touch it, too
    const Finding more = access_of_cluster(piece, {grid_runner().rank(), offset}, access, past);
    const bool is_unwritten = finding.is_unwritten && more.is_unwritten;
    if (!finding.is_race) finding = more;
    finding.is_unwritten = is_unwritten;
  }
  if (finding.is_race) found_race(access, finding.other, element_text(piece, offset), true);
  if (finding.is_unwritten) report_unwritten(access, element_text(piece, offset), true);
}

}  // namespace rmsnorm::cpu_device
