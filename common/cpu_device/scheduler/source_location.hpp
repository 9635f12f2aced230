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

/// Source location of a call.
struct SourceLocation {
  const char* file = "";  ///< as the compiler names it
  int line = 0;           ///< from 1
  /// The function of CUDA that is called there, "__syncwarp()", if lanes of a warp may call it at
  /// different locations.
  const char* function = nullptr;

  SourceLocation of(const char* called) const { return {file, line, called}; }  ///< of this one
};

/// Whether two source locations are the same line.
inline bool is_same_line(SourceLocation a, SourceLocation b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

}  // namespace rmsnorm::cpu_device
