#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name.

#include "common/cpu_device/kernel_language.hpp"
#include "common/cpu_device/ptx.hpp"
#include "common/cpu_device/runtime_api.hpp"
#include "common/cpu_device/shared_memory.hpp"

namespace cuda {
namespace std = ::std;  // the rewriter takes <X> for <cuda/std/X>
}  // namespace cuda
