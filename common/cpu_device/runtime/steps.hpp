#pragma once
/// \file
/// Steps: places in the code that have been passed, of which a StepLimit allows so many.

#include <cstdint>

namespace rmsnorm::cpu_device {

/// After which the limit is exceeded; from 0, that is never.
inline std::uint64_t steps_left = 0;

/// They are; the code is there.
[[gnu::noinline, gnu::cold]] void steps_are_over(const void* pc);

}  // namespace rmsnorm::cpu_device
