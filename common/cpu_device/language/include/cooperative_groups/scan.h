#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name.

#include <cooperative_groups/reduce.h>
