#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name.

#include "common/cpu_device/language/kernel_language.hpp"
#include "common/cpu_device/language/ptx.hpp"
#include "common/cpu_device/language/shared.hpp"
#include "common/cpu_device/runtime/runtime_api.hpp"

namespace cuda {
namespace std = ::std;  // the rewriter takes <X> for <cuda/std/X>
}  // namespace cuda
