#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name.

#include "common/cpu_device/language/include/half_type.hpp"

RMSNORM_HALF_TYPE(__half, half2, __half2_raw, half, fp16)
using half = __half;
using __half2 = half2;
