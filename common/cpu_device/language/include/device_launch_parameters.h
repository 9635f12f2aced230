#pragma once
/// \file
/// The CPU device's stand-in for CUDA's header of this name: threadIdx and its like are in the
/// runtime's.

#include <cuda_runtime.h>
