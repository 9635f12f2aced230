#include "common/cpu_device/race_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/cpu_device/block.hpp"

namespace rmsnorm::cpu_device {

void report_race(
    const Access& access, const RaceDetector::Conflict& other, const SharedPiece& piece,
    std::size_t offset) {
  const SourceLine here = line_of_call(access.pc);
  const SourceLine there = line_of_call(other.pc);
  const std::string key =
      "race " + place_text(std::min(here, there)) + place_text(std::max(here, there));
  hazards().add(key, [&] {
    Hazard found = hazard_at(access.pc);
    const bool both_write_here =
        here == there && access.touch == Touch::store && other.touch == Touch::store;
    found.what = fmt::format(
        "a race: thread {} {} {} here, thread {} {} it at {}, and no barrier is between them",
        block_runner().current(), verb(access.touch), element_text(piece, offset), other.thread,
        verb(other.touch), place_text(there));
    found.advice = both_write_here
                       ? "Let one of the threads write it, or give each an element of its own"
                       : "Put __syncthreads() between the two";
    return found;
  });
}

void report_unwritten(const Access& access, const SharedPiece& piece, std::size_t offset) {
  hazards().add("unwritten " + place_text(line_of_call(access.pc)), [&] {
    Hazard found = hazard_at(access.pc);
    found.what = fmt::format(
        "thread {} reads {}, which no thread of this block has written before",
        block_runner().current(), element_text(piece, offset));
    found.advice = "Shared memory begins with no value: let a thread write it first";
    found.is_symptom = true;  // or one thread does, too late: then there is a race as well
    return found;
  });
}

void report_no_wait(const Access& access, const std::string& of) {
  hazards().add("no wait " + place_text(line_of_call(access.pc)), [&] {
    Hazard found = hazard_at(access.pc);
    found.what = fmt::format(
        "{} of {} before cudaGridDependencySynchronize(): the kernel before may still be {} it",
        who_text(access), of, access.touch == Touch::load ? "writing" : "using");
    found.advice = "The launch may overlap the one before it: let the thread wait first";
    return found;
  });
}

}  // namespace rmsnorm::cpu_device
