#pragma once
/// \file
/// Named shapes. A kernel's speed is always the speed in a regime: there is no other.

#include <cstdint>
#include <string>
#include <vector>

#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// Whether the tensors are in the L2 cache when a timed launch starts.
enum class Cache {
  cold,  ///< they are not: a launch finds nothing there
  warm,  ///< they are, as far as they fit
};

/// "cold" or "warm", as files and tables have it.
const char* to_string(Cache cache);

/// Rows and columns of x and y.
struct Shape {
  int rows;    ///< 0 or more
  int hidden;  ///< columns, 1 or more
};

/// A named list of shapes, each timed in the given states of the cache.
struct Regime {
  std::string name;           ///< as on the command line
  std::vector<Shape> shapes;  ///< one, or those of a sweep
  std::vector<Cache> caches;  ///< in which it is timed
  bool is_backward = false;   ///< whether it is of backward passes, not of forward ones
};

/// The name of the regime that holds a problem of the reader's own.
inline constexpr const char* kCustomRegime = "custom";

/// The regimes of the tutorial, one shape each: five of forward passes, one of backward passes.
const std::vector<Regime>& regimes();

/// The two sweeps behind the charts over rows and over hidden.
const std::vector<Regime>& sweeps();

/// Whether a lesson is measured in a regime. In a problem of the reader's own, all are.
bool is_measured_in(const Lesson& lesson, const Regime& regime);

/// Bytes of x and y together, or of all tensors of rows if there is a residual, which is read and
/// written.
std::int64_t bytes_of_rows(Shape shape, Dtype dtype = Dtype::fp32, bool residual = false);

/// The shape with its rows halved until so many tensors, in fp32, take at most `budget` bytes, but
/// not below one row. A regime keeps its name and its character on a GPU with less memory, and
/// its shape in every type.
Shape halve_rows_to_fit(Shape shape, std::int64_t budget, int tensors = 2);

/// The shape with so few rows that the CPU device has done with it in a moment, but enough to fill
/// a warp of a kernel that gives each row to one thread.
Shape small_version(Shape shape);

}  // namespace rmsnorm
