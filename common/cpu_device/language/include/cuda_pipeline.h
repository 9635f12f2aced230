#pragma once
/// \file
/// The CPU device's stand-in for the CUDA Toolkit's header of this name.

#include <cuda_runtime.h>

#include "common/cpu_device/scheduler/async_copy.hpp"

/// The last `zeros` of the bytes, which are 4, 8 or 16, become 0.
__forceinline__ void __pipeline_memcpy_async(
    void* to, const void* from, std::size_t bytes, std::size_t zeros = 0) {
  rmsnorm::cpu_device::begin_copy(
      to, from, static_cast<int>(bytes), static_cast<int>(bytes - zeros));
}
inline void __pipeline_commit() {
  rmsnorm::cpu_device::commit_copies();
}
inline void __pipeline_wait_prior(int batches) {
  rmsnorm::cpu_device::wait_for_copies(batches);
}
