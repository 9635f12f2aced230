#pragma once
/// \file
/// What the kernels that are wrong (or right) on purpose include, to be read once for all of them.

#include <cuda/annotated_ptr>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "common/operations/backward.hpp"
#include "common/operations/residual_add.hpp"
#include "common/operations/rms_norm.hpp"
#include "common/operations/rms_norm_fp8.hpp"
