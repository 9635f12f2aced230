#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name.

#include "common/cpu_device/language/include/half_type.hpp"

RMSNORM_HALF_TYPE(__nv_bfloat16, bfloat162, __nv_bfloat162_raw, bfloat16, bf16)
using nv_bfloat16 = __nv_bfloat16;
using __nv_bfloat162 = bfloat162;
using nv_bfloat162 = bfloat162;
