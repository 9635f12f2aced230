#pragma once
/// \file
/// Named shapes. A kernel's speed is always the speed in a regime: there is no other.

#include <string>
#include <string_view>
#include <vector>

#include "common/contract/cache.hpp"

namespace rmsnorm {

struct Operation;  // contract/operation.hpp

/// Rows and columns of x.
struct Shape {
  int rows;    ///< 0 or more
  int hidden;  ///< columns, 1 or more

  bool operator==(const Shape&) const = default;  ///< whether both are the same
};

/// A named list of shapes, each timed in the given states of the cache.
struct Regime {
  std::string name;           ///< as on the command line
  std::vector<Shape> shapes;  ///< one, or those of a sweep
  std::vector<Cache> caches;  ///< in which it is timed
  bool is_of_one = false;     ///< whether it is only for operations that name it as theirs
};

/// The name of the regime whose copy others are compared with: it has rows enough for any GPU.
inline constexpr const char* kPrefillRegime = "prefill";

/// The name of the regime with so few rows that times are compared, and not bandwidths.
inline constexpr const char* kDecodeRegime = "decode";

/// The name of the regime that holds a problem of the reader's own.
inline constexpr const char* kCustomRegime = "custom";

/// The name of the sweep over the number of rows, all of one length.
inline constexpr const char* kRowsSweep = "sweep_rows";

/// The name of the sweep over the rows' length, with as many elements everywhere.
inline constexpr const char* kHiddenSweep = "sweep_hidden";

/// The name of the sweep over odd rows and their even neighbours, which is about 16-bit types:
/// every second odd row begins at no multiple of 4 bytes.
inline constexpr const char* kUnalignedSweep = "sweep_unaligned";

/// Whether the name is a sweep's: many shapes under one name.
inline bool is_sweep(std::string_view regime) {
  return regime.starts_with("sweep_");
}

/// The regimes of the tutorial, one shape each: five for most operations, one of backward passes.
const std::vector<Regime>& regimes();

/// The sweeps behind the charts over rows and over hidden, and the table of unaligned rows.
const std::vector<Regime>& sweeps();

/// Whether an operation is measured in a regime. In a problem of the reader's own, all are.
bool is_measured_in(const Operation& operation, const Regime& regime);

/// The shape with so few rows that the CPU device has done with it in a moment.
/// \param shape      a regime's
/// \param least_rows so many stay; 32 fill a warp of a kernel that gives each row to one thread
Shape small_version(Shape shape, int least_rows = 32);

}  // namespace rmsnorm
