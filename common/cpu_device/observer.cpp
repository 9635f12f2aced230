#include "common/cpu_device/observer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "common/cpu_device/shared_memory.hpp"
#include "common/cpu_device/source_lines.hpp"

// The program's code and static data, by the linker.
extern "C" const char __executable_start;
extern "C" const char _end;

namespace rmsnorm::cpu_device {
namespace {

// Accesses that come too early. Each mistake is reported once for its lines.

/// Nothing separates an access from an earlier one. `offset` is the byte's in shared memory.
void report_race(
    const Access& access, const RaceDetector::Conflict& other, const SharedPiece& piece,
    std::size_t offset) {
  const SourceLine here = line_of_call(access.pc);
  const SourceLine there = line_of_call(other.pc);
  const std::string key =
      "race " + place_text(std::min(here, there)) + place_text(std::max(here, there));
  hazards().add(key, [&] {
    const bool both_write_here =
        here == there && access.touch == Touch::store && other.touch == Touch::store;
    return hazard_at(
        access.pc,
        fmt::format(
            "a race: thread {} {} {} here, thread {} {} it at {}, and no barrier is between them",
            block_runner().current(), verb(access.touch), element_text(piece, offset), other.thread,
            verb(other.touch), place_text(there)),
        both_write_here ? "Let one of the threads write it, or give each an element of its own"
                        : "Put __syncthreads() between the two");
  });
}

/// A load of what has no value yet.
void report_unwritten(const Access& access, const SharedPiece& piece, std::size_t offset) {
  hazards().add("unwritten " + place_text(line_of_call(access.pc)), [&] {
    Hazard found = hazard_at(
        access.pc,
        fmt::format(
            "thread {} reads {}, which no thread of this block has written before",
            block_runner().current(), element_text(piece, offset)),
        "Shared memory begins with no value: let a thread write it first");
    found.is_symptom = true;  // or one thread does, too late: then there is a race as well
    return found;
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

void Observer::start(std::vector<KnownMemory> tensors) {
  bounds_.start(std::move(tensors));
  counter_.start();
  is_watching = true;
}

Observation Observer::stop() {
  is_watching = false;
  return counter_.result();
}

void Observer::launch_begins(
    const void* kernel, const void* arguments, std::size_t argument_bytes, bool may_overlap) {
  kernel_ = kernel;
  arguments_ = static_cast<const char*>(arguments);
  argument_bytes_ = argument_bytes;
  may_overlap_ = may_overlap;
  views_.begin_launch();
}

std::string Observer::kernel() const {
  return name_of_function(kernel_);
}

void Observer::block_begins() {
  if (!is_watching) return;
  counter_.block_begins();
  races_.begin_block();
  has_waited_.reset();
  has_triggered_.reset();
  is_trigger_late_ = false;
}

void Observer::block_ends() {
  if (!is_watching) return;
  counter_.block_met();
  if (has_triggered_.none()) return;
  const auto threads = static_cast<int>(has_triggered_.count());
  counter_.meeting(is_trigger_late_ ? "late trigger" : "trigger", trigger_, threads);
}

void Observer::all_paused() {
  if (is_watching) counter_.all_paused();
}

void Observer::barrier_passed(Place place, int threads) {
  if (!is_watching) return;
  counter_.block_met();
  counter_.meeting("barrier", place, threads);
  races_.barrier();
  if (has_waited_.any()) has_waited_.set();  // it orders the others, too
}

void Observer::kernel_before_ended() {
  if (is_watching) has_waited_.set(static_cast<std::size_t>(block_runner().current()));
}

void Observer::triggered(Place place) {
  if (!is_watching) return;
  if (has_triggered_.none()) trigger_ = place;
  has_triggered_.set(static_cast<std::size_t>(block_runner().current()));
}

void Observer::lanes_met(Meeting kind, int warp, std::uint32_t lanes, Place place) {
  if (!is_watching) return;
  if (kind == Meeting::sync) races_.sync_warp(warp, lanes);
  if (lanes == 0xffffffff) counter_.warp_met(warp);
  if (kind == Meeting::shuffle) counter_.meeting("shuffle", place, std::popcount(lanes));
}

void Observer::access(Access access) {
  if (!in_watched_kernel) return;
  const NotWatching pause;  // the library's templates may come from an observed file
  std::tie(access.address, access.policy) = views_.resolve(access.address);
  const void* const address = access.address;
  if (block_runner().stacks().contains(address)) return;  // the thread's own variables
  if (shared_memory().contains(address)) return shared_access(access);
  if (is_in(address, arguments_, argument_bytes_)) return;
  const auto program_bytes = static_cast<std::size_t>(&_end - &__executable_start);
  if (is_in(address, &__executable_start, program_bytes)) return;  // threadIdx and the like
  global_access(access);
}

void Observer::global_access(const Access& access) {
  const std::string& name = bounds_.global(access);
  const auto thread = static_cast<std::size_t>(block_runner().current());
  if (may_overlap_ && !has_waited_[thread]) report_no_wait(access, name);
  if (access.touch != Touch::load && !has_triggered_[thread]) is_trigger_late_ = true;
  counter_.access(access, false, name, reinterpret_cast<std::uintptr_t>(access.address));
}

void Observer::shared_access(const Access& access) {
  const SharedPiece& piece = bounds_.shared(access);
  const std::size_t offset = shared_memory().offset_of(access.address);
  const RaceDetector::Finding finding = races_.access(
      access.pc, block_runner().current(), offset - SharedMemory::kFirstByte, access.bytes,
      access.touch);
  if (finding.is_race) report_race(access, finding.other, piece, offset);
  if (finding.is_unwritten) report_unwritten(access, piece, offset);
  counter_.access(access, true, piece.name, offset);
}

}  // namespace rmsnorm::cpu_device
