#pragma once
/// \file
/// Indices of threads and blocks, extents of blocks and grids, and source locations of calls.

#include <cstring>

/// The index of a thread or of a block.
struct uint3 {
  unsigned x;  ///< counts fastest
  unsigned y;  ///< next
  unsigned z;  ///< slowest
};

/// The size of a block or a grid.
struct dim3 {
  unsigned x;  ///< of what counts fastest
  unsigned y;  ///< next
  unsigned z;  ///< slowest
  /// One in each direction that is not given.
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 size) : x(size.x), y(size.y), z(size.z) {}  ///< the same numbers
  constexpr operator uint3() const { return {x, y, z}; }           ///< likewise
};

namespace rmsnorm::cpu_device {

/// Warp-level functions of CUDA. Lanes may call the same one at different source locations.
enum class WarpCall : int {
  other,       ///< none of them: a library's function
  sync,        ///< __syncwarp
  shfl,        ///< __shfl_sync
  shfl_up,     ///< __shfl_up_sync
  shfl_down,   ///< __shfl_down_sync
  shfl_xor,    ///< __shfl_xor_sync
  ballot,      ///< __ballot_sync
  any,         ///< __any_sync
  all,         ///< __all_sync
  match_any,   ///< __match_any_sync
  match_all,   ///< __match_all_sync
  reduce_add,  ///< __reduce_add_sync
  reduce_min,  ///< __reduce_min_sync
  reduce_max,  ///< __reduce_max_sync
  reduce_and,  ///< __reduce_and_sync
  reduce_or,   ///< __reduce_or_sync
  reduce_xor,  ///< __reduce_xor_sync
};

/// A source location, and which warp-level function is called there.
struct SourceLocation {
  const char* file = "";            ///< as the compiler names it
  int line = 0;                     ///< from 1
  WarpCall call = WarpCall::other;  ///< that is called there

  /// The same location, with this function.
  SourceLocation of(WarpCall which) const { return {file, line, which}; }
};

/// Whether two source locations are the same line.
inline bool is_same_line(SourceLocation a, SourceLocation b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace rmsnorm::cpu_device
