#pragma once
/// \file
/// The tensors of a problem: random, reproducible, and guarded so that a wrong kernel is noticed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/operation.hpp"
#include "common/tensors/guarded_tensor.hpp"

namespace rmsnorm {

/// What a workload is made from.
struct WorkloadSpec {
  Memory memory = Memory::device;  ///< where the tensors lie
  int rows = 0;                    ///< of x
  int hidden = 1;                  ///< columns
  float eps = 1e-5f;               ///< 0 or more
  std::uint64_t seed = 1;          ///< of the random numbers
  int sets = 1;      ///< how many independent copies of all tensors; see measure/benchmark.hpp
  int misalign = 0;  ///< elements by which the first tensor starts after a 256-byte boundary
  int spread = 0;    ///< and by how many more each other one does than the one before it; piece i
                     ///< of a tensor, by i times as many more than the one before it
  int shifted = -1;  ///< the number of a tensor that alone starts one element later; or none. Where
                     ///< it is of pieces, each but the first starts later than the one before it
  Types types = {};  ///< of the tensors
  std::array<int, kMaxSizes> more = {};  ///< as Operation::sizes has them; 0: the usual one
  std::array<std::optional<float>, kMaxScalars> scalars = {};  ///< likewise; none: the usual one
};

/// The sizes of such a problem.
Sizes sizes_of(const Operation& operation, const WorkloadSpec& spec);

/// The scalars beside eps of such a problem.
float scalar_of(const Operation& operation, const WorkloadSpec& spec, std::size_t number);

/// A problem's sizes beside rows and columns: "q_heads=8 k_heads=2"; "" where it has none.
std::string text_of_sizes(const Operation& operation, const Sizes& sizes);

/// One problem of an operation, or several alike, of tensors that are guarded. What the operation
/// derives from its inputs is exact, rounded once.
class Workload {
 public:
  /// Allocates all tensors, and fills those that are read. Those of the weight's type are there
  /// also if there is no weight; then no problem has them.
  /// \throws CudaError or std::bad_alloc if memory is short, and std::runtime_error if there is a
  /// bias without a weight, or columns are no multiple of what the operation wants.
  Workload(const Operation& operation, const WorkloadSpec& spec);

  /// The same tensors at other addresses. What is read there is NaN until the values are taken
  /// over; integers are others.
  Workload moved() const;

  /// Enqueues on the stream that what a launch on set 0 reads gets the values that `from` has, and
  /// that inputs are NaN there from then on, or 0 where they are integers, unless no two of these
  /// may be alike. \throws CudaError
  void take(const Workload& from, cudaStream_t stream) const;

  /// The problem of one set, without a workspace.
  Problem problem(int set = 0) const;

  /// That of set 0 as it is before a launch: in it, tensors in place have their old values.
  Problem before() const;

  /// The tensor with this name, of all sets. \throws std::logic_error if there is none
  const GuardedTensor& tensor(std::string_view name) const;

  /// Replaces the values of an input of set 0, rounded to its type, and what is derived from it.
  void set(std::string_view name, const std::vector<float>& values) const;

  /// Makes the tensors of set 0 ready for a launch: outputs are poison, tensors in place as before.
  void reset() const;

  /// A hash of all memory that a launch on set 0 must leave as it is: every tensor of every set and
  /// every guard, but not what set 0's launch writes. \throws CudaError
  std::uint64_t hash_of_untouchables() const;

  /// A hash of what a launch on set 0 writes. \throws CudaError
  std::uint64_t hash_of_results() const;

  /// A complaint if the guards of what set 0's launch writes are not as they were; else "".
  std::string complaint_about_guards() const;

  /// A complaint if it has written where no integer leads, in a tensor whose places they choose;
  /// else "". The integers have to be as they were.
  std::string complaint_about_places() const;

  const Operation& operation() const { return operation_; }  ///< whose problem it is
  const WorkloadSpec& spec() const { return spec_; }         ///< what it was made from
  bool is_random() const { return is_random_; }  ///< whether all values are as they were drawn

  /// Bytes that have to cross global memory in a launch (operation.hpp).
  std::int64_t bytes_to_move() const;

  /// Elements of the largest matrix.
  std::int64_t elements() const;

  /// Bytes that a workload takes.
  static std::size_t bytes(const Operation& operation, const WorkloadSpec& spec);

 private:
  struct Elsewhere {};
  Workload(const Workload& other, Elsewhere);
  void allocate();

  const Operation& operation_;
  WorkloadSpec spec_;
  std::vector<GuardedTensor> tensors_;                ///< in the operation's order
  std::vector<std::optional<GuardedTensor>> before_;  ///< of those in place, set 0
  mutable bool is_random_ = true;
};

/// A problem of these sizes, without tensors.
Problem problem_without_tensors(const Operation& operation, const WorkloadSpec& spec);

/// What GuardedTensor::fill takes for the length of rows: columns, or what integers are below.
std::int64_t length_for_fill(const TensorSpec& tensor, const Sizes& sizes);

/// What a tensor that is read is filled with.
Content content_of(const TensorSpec& tensor);

/// Memory for the workspaces of so many ranks, guarded and poisoned: of so many bytes each.
GuardedTensor make_workspace(Memory memory, std::size_t bytes, int ranks = 1);

/// Gives a problem these workspaces.
void give(Problem& problem, const GuardedTensor& workspaces);

/// "" if the guards of set 0's tensor still hold poison, otherwise one sentence with the tensor's
/// name and its number of elements in words.
std::string complaint_about_guards(
    const GuardedTensor& tensor, std::string_view name, std::string_view size);

}  // namespace rmsnorm
