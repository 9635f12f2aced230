#pragma once
/// \file
/// The CPU device's stand-in for the driver's header, of which it has nothing: many files that include
/// it use the runtime alone.

#include <cuda_runtime.h>
