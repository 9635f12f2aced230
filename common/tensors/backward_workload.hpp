#pragma once
/// \file
/// The tensors of a backward pass: random, reproducible, and fenced in.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/tensors/fenced_tensor.hpp"
#include "common/tensors/workload.hpp"

namespace rmsnorm {

/// One backward problem, or several alike. rstd is the exact one of x and eps, rounded once: a
/// lesson is not judged by its forward pass.
class BackwardWorkload {
 public:
  /// Allocates and fills the inputs of a spec without a residual.
  /// \throws CudaError or std::bad_alloc if memory is short, and std::runtime_error if there is a
  /// bias without a weight.
  explicit BackwardWorkload(const WorkloadSpec& spec);

  /// The problem of one set, without a workspace.
  BackwardProblem problem(int set = 0) const;

  /// The workspace for a lesson, fenced in.
  FencedTensor workspace_for(const Backward& lesson) const;

  /// A hash of all memory that a launch on set 0 must leave as it is. \throws CudaError
  std::uint64_t hash_of_untouchables() const;

  /// A hash of dx and dweight of set 0. \throws CudaError
  std::uint64_t hash_of_results() const;

  /// Replaces x of set 0 (rows * hidden values), rounded to its type, and rstd with it.
  void set_x(const std::vector<float>& values) const;
  void set_dy(const std::vector<float>& values) const;  ///< replaces dy likewise

  const FencedTensor& x() const { return inputs_.x; }       ///< of all sets
  const FencedTensor& dy() const { return dy_; }            ///< of all sets
  const FencedTensor& dx() const { return dx_; }            ///< of all sets
  const FencedTensor& dweight() const { return dweight_; }  ///< of all sets
  const WorkloadSpec& spec() const { return spec_; }        ///< what it was made from

  /// Bytes that have to cross global memory in a launch: x, dy and dx.
  std::int64_t bytes_to_move() const;

  /// Bytes that a workload takes.
  static std::size_t bytes(const WorkloadSpec& spec);

 private:
  void compute_rstd(int set) const;

  WorkloadSpec spec_;
  WorkloadInputs inputs_;
  FencedTensor rstd_;
  FencedTensor dy_;
  FencedTensor dx_;
  FencedTensor dweight_;
};

}  // namespace rmsnorm
