#pragma once
/// \file
/// Accesses that come too early, in words. Each mistake is reported once for its lines.

#include <cstddef>

#include "common/cpu_device/access.hpp"
#include "common/cpu_device/race_detector.hpp"

namespace rmsnorm::cpu_device {

/// Reports that nothing separates an access from an earlier one to the same variable. `offset` is
/// the byte's in shared memory.
void report_race(
    const Access& access, const RaceDetector::Conflict& other, const SharedPiece& piece,
    std::size_t offset);

/// Reports a load of what has no value yet.
void report_unwritten(const Access& access, const SharedPiece& piece, std::size_t offset);

/// Reports an access to the tensor `of` that does not wait for the kernel before.
void report_no_wait(const Access& access, const std::string& of);

}  // namespace rmsnorm::cpu_device
