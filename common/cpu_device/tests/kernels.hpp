#pragma once
/// \file
/// Kernels that are right: what the CPU device makes of them, and what it counts. They are launched
/// as `kernel->*Launch(blocks, threads)(arguments)`, which is what the rewriter makes of <<<>>>.

#include <cuda_runtime.h>

#include <array>

namespace tests {

/// Writes 1 to the first elements of y, one for each thread of all blocks.
__global__ void fill(float* y);
/// y[0] = value; and y[0] = y[0] + 1.
__global__ void set(float* y, float value);
__global__ void increment(float* y);

/// 40000 bytes of variables; more than a block can have; int[7], and double[50] in a device
/// function.
__global__ void large_static(float* y);
__global__ void too_large_static(float* y);
__global__ void has_scratch(float* y);
/// y[t] = t, by way of dynamic shared memory that is declared outside of all functions.
__global__ void file_scope(float* y);

/// Where the threads of a block load, in floats.
using Addresses = std::array<int, 64>;
/// Each thread loads a T, which is float, float2 or float4, from x + at[t], and stores its first
/// float to y[t].
template <class T>
__global__ void load_global(const float* x, Addresses at, float* y);
/// The same from shared memory, which has `floats` floats.
template <class T>
__global__ void load_shared(int floats, Addresses at, float* y);
/// Each thread stores a T there.
template <class T>
__global__ void store_shared(Addresses at);
/// y[t] = x[t] + x[t + 32] + x[t + 64] + x[t + 96], loaded with the policies evict_last,
/// evict_first, normal, and evict_last for half of the lines.
__global__ void policies(const float* x, float* y);
/// Loads x[1] with a policy.
__global__ void past_the_end(const float* x, float* y);

/// y[t] = the lanes that are with the t-th of 24 behind a loop of t / 8 rounds; y[24] = those that
/// are with the first of them when all 24 have met.
__global__ void lanes_behind_loop(float* y);
/// Of 96 threads, which write to y, `early` ones let the next kernel begin before that, and `late`
/// ones after it.
__global__ void triggers(float* y, int early, int late);
/// y[0] = the sum of x[0 .. 16), by cub::WarpReduce<float, 16>.
__global__ void half_warp_reduce(const float* x, float* y);
/// Block 0 writes 1 to y[0], through a volatile pointer, and then raises the flag y[1], for which
/// block 1 waits to copy y[0] to y[2]. With no fences unless `correct`.
__global__ void hand_over(float* y, bool correct);
/// Each of two blocks, in x or in y, raises its flag, y[0] or y[1], calls a fence for the device or
/// for the system, and counts in y[2] if the other flag is not up.
__global__ void raise_and_look(float* y, bool of_system);
/// Rank 0 stores 32 floats at rank 1, and a flag behind them; that waits for it, and adds to them
/// what rank 0 has.
__global__ void hand_over_to_peer(const float* of_0, float* of_1);
/// Each thread of two blocks of 32 writes to y its number in the launch, and the last block to
/// arrive adds y[31] and y[32] up in y[99]. With a fence behind the counter if `correct`.
__global__ void last_block_sums(float* y, bool correct);
/// Each thread writes its number in the launch to the mirrored place of its block in y, by way of
/// a shared array outside of all functions.
__global__ void shared_outside(float* y);

}  // namespace tests
