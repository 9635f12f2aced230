#pragma once
/// \file
/// A warp that loads once, each lane from an address of its choice: in global memory, and in shared
/// memory.

namespace tests {

constexpr int kLanes = 32;

/// One block of 32 threads; each loads `bytes` (4, 8 or 16) bytes from x + at[lane].
///
/// \param x   (anything that `at` points into), on the device
/// \param at  (32) floats from x; on the device
/// \param y   (32) what was loaded, the first float of it; on the device
void load_from_global(int bytes, const float* x, const int* at, float* y);

/// The same from shared memory, of which the block has `floats` floats.
void load_from_shared(int bytes, int floats, const int* at, float* y);

}  // namespace tests
