#pragma once
/// \file
/// NVML, NVIDIA's library that tells how a GPU does. It comes with the driver, not with the
/// toolkit, so it is looked up at run time: the program must start on machines that have no driver.

#include <optional>
#include <string>

namespace rmsnorm {

/// The driver's version as nvidia-smi prints it; nothing where NVML is not there.
std::optional<std::string> driver_version_of_nvml();

/// Why the clocks of CUDA's device 0 are lower than they could be at this moment: the sum of NVML's
/// reasons, 0 for none. Nothing where NVML is not there, or does not know. \throws CudaError
std::optional<unsigned long long> reasons_for_lower_clocks();

}  // namespace rmsnorm
