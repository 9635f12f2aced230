#pragma once
/// \file
/// The tensors of a problem: random, reproducible, and fenced in so that a wrong kernel is noticed.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/buffer.hpp"
#include "common/lesson.hpp"

namespace rmsnorm {

/// What a workload is made from.
struct WorkloadSpec {
  Memory memory = Memory::device;  ///< where the tensors lie
  int rows = 0;                    ///< of x and y
  int hidden = 1;                  ///< columns
  float eps = 1e-5f;               ///< 0 or more
  std::uint64_t seed = 1;          ///< of the random numbers
  int sets = 1;      ///< how many independent copies of (x, weight, y); see benchmark.hpp
  int misalign = 0;  ///< floats by which each tensor starts after a 256-byte boundary
};

/// One problem, or several alike, with memory around each tensor that no kernel may touch.
///
///     | guard | x of set 0 | guard | x of set 1 | guard | ...     and so for weight and y
///
/// The guards of x and weight hold NaN, which spreads into the result of a kernel that reads them.
/// Those of y hold poison (element_check.hpp), as y itself does before every verified launch: what
/// was not written, and what should not have been, can be told.
class Workload {
 public:
  static constexpr std::size_t kGuard = 1024;  ///< floats before and after a tensor

  /// Allocates and fills x and weight. \throws CudaError or std::bad_alloc if memory is short.
  explicit Workload(const WorkloadSpec& spec);

  /// The problem of one set.
  Problem problem(int set = 0) const;

  /// Fills the whole of y's buffer with poison.
  void poison_y() const;

  /// The guard before (0) or after (1) y of set 0; kGuard floats.
  const float* y_guard(int side) const;

  /// A hash of all memory that a launch on set 0 must leave as it is: every tensor of every set and
  /// every guard, but not y of set 0. \throws CudaError
  std::uint64_t hash_of_untouchables() const;

  /// Replaces x (rows * hidden values) or the weight (hidden values) of set 0.
  void set_x(const std::vector<float>& values) const;
  void set_weight(const std::vector<float>& values) const;  ///< likewise

  const WorkloadSpec& spec() const { return spec_; }  ///< what it was made from

  /// Bytes that a workload with these tensors takes.
  static std::size_t bytes(int rows, int hidden, int sets);

 private:
  std::uint64_t hash(const float* data, std::size_t size) const;

  WorkloadSpec spec_;
  std::size_t matrix_stride_;  ///< floats from one set's x (or y) to the next's
  std::size_t vector_stride_;  ///< floats from one set's weight to the next's
  Buffer x_;
  Buffer weight_;
  Buffer y_;
};

}  // namespace rmsnorm
