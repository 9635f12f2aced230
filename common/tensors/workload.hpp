#pragma once
/// \file
/// The tensors of a problem: random, reproducible, and fenced in so that a wrong kernel is noticed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/contract/types.hpp"
#include "common/tensors/fenced_tensor.hpp"

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

/// Types of the weight's elements, also if there is none.
inline Dtype weight_dtype(const WorkloadSpec& spec) {
  return spec.types.weight.value_or(spec.types.dtype);
}

/// Elements of x.
inline std::size_t matrix_size(const WorkloadSpec& spec) {
  return static_cast<std::size_t>(spec.rows) * spec.hidden;
}

/// A tensor of each set: of x's type and shape, or of the weight's.
FencedTensor matrix_of(const WorkloadSpec& spec);
FencedTensor weights_of(const WorkloadSpec& spec);  ///< likewise

/// What every problem has, forward or backward: x and the weight, filled.
class WorkloadInputs {
 public:
  /// Without a weight, its tensor is there, and no problem has it.
  /// \throws std::runtime_error if there is a bias without a weight
  explicit WorkloadInputs(const WorkloadSpec& spec);

  /// A problem of which all but these inputs, and what the spec says of them, is still to be set.
  template <class AnyProblem>
  AnyProblem problem(const WorkloadSpec& spec, int set) const {
    AnyProblem p;
    p.x = x.data(set);
    p.weight = spec.types.weight ? weight.data(set) : nullptr;
    p.rows = spec.rows;
    p.hidden = spec.hidden;
    p.weight_bias = spec.types.weight_bias;
    p.dtype = x.dtype();
    p.weight_dtype = weight.dtype();
    return p;
  }

  FencedTensor x;       ///< of all sets
  FencedTensor weight;  ///< of all sets
};

/// One problem, or several alike, of tensors that are fenced in.
class Workload {
 public:
  static constexpr std::size_t kGuardBytes = FencedTensor::kGuardBytes;  ///< beside a tensor
  static constexpr std::size_t kGuard = kGuardBytes / sizeof(float);     ///< the same in floats

  /// Allocates and fills all but y. \throws CudaError or std::bad_alloc if memory is short, and
  /// std::runtime_error if there is a bias without a weight.
  explicit Workload(const WorkloadSpec& spec);

  /// The problem of one set.
  TypedProblem typed_problem(int set = 0) const;

  /// The problem of one set, whose types are fp32.
  Problem problem(int set = 0) const;

  const FencedTensor& x() const { return inputs_.x; }  ///< of all sets

  /// y of all sets, and what lies around it.
  const FencedTensor& y() const { return y_; }

  /// Fills the whole of y's buffer with poison.
  void poison_y() const { y_.poison(); }

  /// The guard before (0) or after (1) y of set 0; kGuardBytes.
  const void* y_guard(int side) const { return y_.guard(side); }

  /// Gives the residual of set 0, if there is one, the values that it had at first, or by
  /// set_residual.
  void restore_residual() const;

  /// Those values, where the tensors lie; null if there is no residual.
  const void* residual_before() const;

  /// A hash of all memory that a launch on set 0 must leave as it is: every tensor of every set and
  /// every guard, but not y and the residual of set 0. \throws CudaError
  std::uint64_t hash_of_untouchables() const;

  /// Replaces a tensor of set 0, rounded to its type: x, with rows * hidden values.
  void set_x(const std::vector<float>& values) const;
  void set_weight(const std::vector<float>& values) const;    ///< with hidden values
  void set_residual(const std::vector<float>& values) const;  ///< if there is one, as x

  const WorkloadSpec& spec() const { return spec_; }  ///< what it was made from

  /// Bytes that have to cross global memory in a launch: x and y, and a residual twice, but nothing
  /// for the weight.
  std::int64_t bytes_to_move() const;

  /// Bytes that a workload takes.
  static std::size_t bytes(const WorkloadSpec& spec);

 private:
  WorkloadSpec spec_;
  WorkloadInputs inputs_;
  FencedTensor y_;
  std::optional<FencedTensor> residual_;
  std::optional<FencedTensor> residual_before_;  ///< of set 0
};

}  // namespace rmsnorm
