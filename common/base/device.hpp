#pragma once
/// \file
/// What this build is, and what its kernels run on.

#include <string>

namespace rmsnorm {

/// What stands between a lesson's name and the reason in the sentence of one that the CPU device
/// cannot run.
inline constexpr const char* kNeedsGpu = " needs a GPU: ";

/// The revision that was built, 12 hex digits, with "-dirty" if files had been changed;
/// "unknown" outside a git checkout.
const char* build_commit();

/// Whether kernels run on the CPU device: it checks and counts, and has no clock.
bool is_cpu_device();

/// The toolkit's version that built this program, "13.0"; "" for the CPU device.
std::string cuda_version();

}  // namespace rmsnorm
