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

/// Lets a device that only seems to be one have so many multiprocessors; 0: as many as at first.
void set_multiprocessors(int count);

/// Whether somebody has asked that device how many it has since the last call of this function.
bool take_asked_for_multiprocessors();

/// Says how many registers nvcc gives a thread of a kernel, by the kernel's symbol: from then on, a
/// device that has no registers refuses launches of it that need more than there are.
void set_registers(const std::string& symbol, int count);

/// The toolkit's version that built this program, "13.0"; "" for the CPU device.
std::string cuda_version();

}  // namespace rmsnorm
