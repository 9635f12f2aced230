#pragma once
/// \file
/// Kernels that compute nothing: one that moves as many bytes as an operation has to, and an empty
/// one.

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

namespace rmsnorm {

/// Starts a kernel that does nothing: that it starts shows that there is code for the GPU.
cudaError_t launch_nothing();

/// A tensor that is read, or written, or both.
struct Stream {
  void* data;          ///< on the device, at a multiple of 16 bytes
  std::int64_t bytes;  ///< 0 or more; what fills no vector of 16 bytes is left out
  bool is_read;        ///< each vector once
  bool is_written;     ///< likewise; what is read, too, keeps its values
};

/// How they are moved. Which is the fastest depends on how much there is.
struct Way {
  bool overlaps;  ///< the launch may begin while the one before it in the stream ends, as those of
                  ///< lesson 12 do: only from Hopper on
  bool is_fine;   ///< a thread has one vector of the largest stream, not of the smallest
  bool keeps;     ///< the L2 cache is to keep what is read rather than what is written
};

/// The ways that differ for these streams, with launches that overlap or do not.
std::vector<Way> ways_to_move(const std::vector<Stream>& streams, bool overlaps);

/// Reads and writes all streams side by side, in one launch: each thread moves its share of each of
/// them, in vectors of 16 bytes, up to 8 in each direction, and loads all before it stores. What is
/// written and not read becomes a mixture of all that is read. Returns what the launch returned;
/// cudaErrorInvalidValue for more than 8 streams in a direction.
cudaError_t move_streams(const std::vector<Stream>& streams, const Way& way, cudaStream_t stream);

}  // namespace rmsnorm
