#pragma once
/// \file
/// Launches that the device has to refuse, and what it can say of a kernel.

#include <cuda_runtime.h>

#include <cstddef>

namespace tests {

/// Writes 1 to the first `blocks` * `threads` elements of y; `dynamic` bytes are of no use to it.
cudaError_t launch_fill(
    dim3 grid, dim3 block, std::size_t dynamic, float* y, cudaStream_t stream = nullptr);
/// The same after the kernel has asked for `dynamic` bytes.
cudaError_t ask_for_dynamic(int dynamic);
cudaError_t forget_dynamic();

/// A kernel with 40000 bytes of variables.
cudaError_t launch_large_static(std::size_t dynamic, float* y);
/// A kernel with more variables than a block can have.
cudaError_t launch_too_large_static(float* y);

/// Static shared memory of kernels that were never launched: a variable in a device function,
/// float[100]; and one before it, int[7] and double[50].
std::size_t static_bytes_of_none();
std::size_t static_bytes_of_template();
std::size_t static_bytes_of_other_template();

/// What a warp of loads and stores costs.
///
/// Each of `threads` threads loads the 4-byte element `start + stride * t` of x into y.
void launch_strided(const float* x, float* y, int threads, int stride, int start);
/// The same through shared memory, and with 16 bytes a lane.
void launch_strided_shared(float* y, int threads, int stride);
void launch_vectors(const float* x, float* y, int threads);
/// 3 barriers and, in each warp, 5 shuffles.
/// A warp copies bf16 to fp16, each lane one value or a pair.
void launch_halves(const float* x, float* y, int width);
void launch_barriers(float* y, int threads);
/// Two blocks of 96 threads write to y. Of each, `early` threads let the next kernel begin before
/// that, and `late` ones after it.
void launch_triggers(float* y, int early, int late);

/// Loads of vectors from shared memory by one warp: lane l takes vector l / sharing. `bytes` is 8
/// or 16.
void launch_shared_vectors(float* y, int bytes, int sharing);
/// Thread 0 loads x[4095] first; then all 64 threads load x[64 * i + t] for 6000 i, from 0 again
/// where x[4096] ends.
void launch_long_loop(const float* x, float* y);
/// y[t] = t, by way of dynamic shared memory that is declared outside of all functions.
void launch_file_scope(float* y, int threads);
/// y[0] = x[0] + 1, by way of a workspace in global memory.
void launch_with_workspace(const float* x, float* workspace, float* y);
/// y[0] = value; and y[0] = y[0] + 1.
void launch_set(float* y, float value, cudaStream_t stream);
void launch_increment(float* y, cudaStream_t stream);
/// y[t] = the t of the lane that __shfl_xor_sync(..., distance) leads to, in a warp.
void launch_shuffle_xor(float* y, int distance);
/// y[0] = the sum of x[0 .. 16), by 16 lanes alone, with cub::WarpReduce<float, 16>.
void launch_half_warp_reduce(const float* x, float* y);

/// y[t] = x[t] + x[t + 32] + x[t + 64], loaded with the policies evict_last, evict_first and
/// normal, by two blocks of a warp.
void launch_policies(const float* x, float* y);
/// Loads x[1] with a policy.
void launch_past_the_end(const float* x, float* y);

/// y[0] = the sum of x[0 .. threads), by cub.
void launch_warp_reduce(const float* x, float* y);
void launch_block_reduce(const float* x, float* y);

}  // namespace tests
