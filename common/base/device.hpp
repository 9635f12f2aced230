#pragma once
/// \file
/// What kernels run on in this build.

#include <string>

namespace rmsnorm {

/// What stands between a lesson's name and the reason in the sentence of one that the CPU device
/// cannot run.
inline constexpr const char* kNeedsGpu = " needs a GPU: ";

/// Whether kernels run on the CPU device: it checks and counts, and has no clock.
bool is_cpu_device();

/// The toolkit's version that built this program, "13.0"; "" for the CPU device.
std::string cuda_version();

}  // namespace rmsnorm
