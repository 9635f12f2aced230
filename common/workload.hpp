#pragma once
/// \file
/// The tensors of a problem: random, reproducible, and fenced in so that a wrong kernel is noticed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/buffer.hpp"
#include "common/lesson.hpp"
#include "common/types.hpp"

namespace rmsnorm {

/// What a workload is made from.
struct WorkloadSpec {
  Memory memory = Memory::device;  ///< where the tensors lie
  int rows = 0;                    ///< of x and y
  int hidden = 1;                  ///< columns
  float eps = 1e-5f;               ///< 0 or more
  std::uint64_t seed = 1;          ///< of the random numbers
  int sets = 1;           ///< how many independent copies of (x, weight, y); see benchmark.hpp
  int misalign = 0;       ///< elements by which each tensor starts after a 256-byte boundary
  Types types = {};       ///< of the tensors
  bool residual = false;  ///< whether there is one
};

/// One problem, or several alike, with memory around each tensor that no kernel may touch.
///
///     | guard | x of set 0 | guard | x of set 1 | guard | ...     and so for the others
///
/// The guards of x, weight and residual hold NaN, which spreads into the result of a kernel that
/// reads them. Those of y hold poison (element_check.hpp), as y itself does before every verified
/// launch: what was not written, and what should not have been, can be told.
class Workload {
 public:
  static constexpr std::size_t kGuardBytes = 4096;                    ///< before and after a tensor
  static constexpr std::size_t kGuard = kGuardBytes / sizeof(float);  ///< the same in floats

  /// Allocates and fills all but y. \throws CudaError or std::bad_alloc if memory is short.
  explicit Workload(const WorkloadSpec& spec);

  /// The problem of one set.
  TypedProblem typed_problem(int set = 0) const;

  /// The problem of one set, whose types are fp32.
  Problem problem(int set = 0) const;

  /// Fills the whole of y's buffer with poison.
  void poison_y() const;

  /// Gives the residual of set 0, if there is one, the values that it had at first.
  void restore_residual() const;

  /// Those values, where the tensors lie; null if there is no residual.
  const void* residual_before() const;

  /// The guard before (0) or after (1) y of set 0; kGuardBytes.
  const void* y_guard(int side) const;

  /// A hash of all memory that a launch on set 0 must leave as it is: every tensor of every set and
  /// every guard, but not y and the residual of set 0. \throws CudaError
  std::uint64_t hash_of_untouchables() const;

  /// Replaces x (rows * hidden values) or the weight (hidden values) of set 0, rounded to its type.
  void set_x(const std::vector<float>& values) const;
  void set_weight(const std::vector<float>& values) const;  ///< likewise

  const WorkloadSpec& spec() const { return spec_; }  ///< what it was made from

  /// Bytes that a workload takes.
  static std::size_t bytes(const WorkloadSpec& spec);

 private:
  /// The tensors of one kind: one for each set, and the guards.
  struct Tensors {
    Dtype dtype;
    std::size_t size;    ///< elements of one
    std::size_t stride;  ///< bytes from one to the next
    Buffer buffer;
  };
  static Tensors allocate(const WorkloadSpec& spec, Dtype dtype, std::size_t size, int sets);
  void* tensor(const Tensors& tensors, int set) const;
  std::uint64_t hash(const void* data, std::size_t bytes) const;
  std::uint64_t hash_without_first(const Tensors& tensors) const;

  WorkloadSpec spec_;
  Tensors x_;
  Tensors weight_;
  Tensors y_;
  std::optional<Tensors> residual_;
  std::optional<Tensors> residual_before_;  ///< of set 0
};

}  // namespace rmsnorm
