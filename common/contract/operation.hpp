#pragma once
/// \file
/// What the harness knows of an operation: its tensors, and whether a result is right. Workload,
/// verifier, gauntlet, benchmark and reports work on this, and know no operation by name.
///
/// An operation is one header of common/operations. It has the struct that kernels take, and a
/// specialisation of Description for it; what that has to have is said here. Beside it, a .cu file
/// of a few lines is where the operation is compiled.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/expected.hpp"
#include "common/contract/problem.hpp"

namespace rmsnorm {

/// The most additions that one term goes through on its way into a sum. It decides how far rounding
/// can move a result.
struct SumDepth {
  /// Of sums along a row alone, or of both.
  SumDepth(int row_depth = 0, int column_depth = 0) : row(row_depth), column(column_depth) {}
  int row;     ///< into a sum along a row
  int column;  ///< into one down a column
};

/// What an output's elements have in common: the sum along their row, or down their column.
enum class Along {
  row,     ///< the sum over all columns of a row
  column,  ///< the sum over all rows of a column
};

/// Some checks, of which each is a struct about one tensor:
///
///     static constexpr int kTensor;     // which one
///     static constexpr Along kAlong;    // what its elements have in common:
///     // All that follows, but bound() and lines(), is __host__ __device__.
///     struct Sum { double ...; };       // a sum, in fp64; made without arguments, it is empty
///     static void add(Sum& sum, const Sum& more);
///     static Sum term(const Problem& before, std::int64_t row, std::int64_t col);
///     static Expected expected(const Problem& before, const Sum& sum, std::int64_t row,
///                              std::int64_t col, double bound);
///     static double bound(int additions, const Types& types);  // the relative one of fp32
///
/// Where a row has several sums, as one for each head, a check numbers them, its lines, and says
/// how many there are and where an element of one is in the tensor. `row` above is a line then:
///
///     static std::int64_t lines(const Problem&);
///     static std::int64_t index(const Problem& before, std::int64_t line, std::int64_t col);
///
/// `before` is the problem as it was before the launch: in it, tensors in place have their old
/// values.
template <class... Check>
struct Checks {};

/// What has to be said of an operation, as static members of the specialisation for its struct:
///
///     using Of = TheStruct;                    // the description that its kernels share
///     static constexpr const char* kName;      // "rms_norm"
///     static constexpr TensorSpec kTensors[];  // x first
///     static TheStruct view(const Problem&);   // a problem as kernels take it
///     using Outputs = Checks<...>;             // of each tensor that is written
///     using Derived = Checks<...>;             // how derived inputs come about (optional)
///     static constexpr SizeSpec kSizes[];      // beside rows and columns (optional)
///     static constexpr ScalarSpec kScalars[];  // beside eps (optional)
///     static constexpr int kHiddenMultiple;                  // see Operation
///     static constexpr bool kHasEps, kSameBits, kIsTyped;    // see Operation, Implementation
///     static constexpr const char* kRegime;                  // see Operation
///     static std::int64_t bytes_to_move(const Sizes&, const Types&);  // or null: of matrices
///
/// What most operations have alike is inherited from here.
struct CommonDescription {
  using Derived = Checks<>;                                    ///< nothing is derived
  static constexpr std::span<const SizeSpec> kSizes = {};      ///< rows and columns alone
  static constexpr std::span<const ScalarSpec> kScalars = {};  ///< eps alone
  static constexpr int kHiddenMultiple = 1;                    ///< any number of columns
  static constexpr bool kHasEps = true;                        ///< eps is part of the formula
  static constexpr bool kSameBits = false;    ///< launches may differ in their last bits
  static constexpr bool kIsTyped = false;     ///< fp32 alone
  static constexpr const char* kRegime = "";  ///< the five of most operations
  static constexpr std::nullptr_t bytes_to_move = nullptr;  ///< those of the matrices
};
template <class View>
struct Description;

/// One element of an output that is not as expected.
struct Mismatch {
  const char* tensor;       ///< its name
  std::int64_t row;         ///< from 0; -1 in a tensor without rows
  std::int64_t col;         ///< from 0; of a group, its first one
  float got = 0;            ///< what the tensor holds
  double expected = 0;      ///< by the fp64 reference
  double allowed = 0;       ///< the largest absolute difference that would have been accepted
  std::string beside = {};  ///< where it is along other sides: "head 3"; "" if there are none
  std::int64_t index = 0;   ///< in the tensor
};

/// Element `index` of a tensor, as one whose place alone is known.
Mismatch mismatch_at(const TensorSpec& tensor, const Sizes& sizes, std::int64_t index);

/// What comparing all outputs found.
struct Comparison {
  std::optional<double> max_error = {};   ///< largest relative error; empty if nothing was compared
  std::optional<Mismatch> mismatch = {};  ///< the first one: of the first tensor, in its order
};

/// An operation.
struct Operation {
  const char* name;                 ///< "rms_norm", as files and the command line have it
  std::vector<TensorSpec> tensors;  ///< in the order of Problem::tensors; the first is x
  std::vector<SizeSpec> sizes;      ///< beside rows and columns
  std::vector<ScalarSpec> scalars;  ///< beside eps
  int hidden_multiple;              ///< of which columns are a multiple: see takes()
  bool has_eps;                     ///< whether eps is part of the formula
  bool same_bits;                   ///< whether the same inputs have to give the same bits
  std::string_view regime;          ///< the only regime for it; "" if there are several

  /// The largest relative error of an element that rounding can explain, that of the tensors' types
  /// included.
  double (*error_bound)(const Problem&, SumDepth);
  /// Compares all outputs with the reference, in memory that the host can read.
  Comparison (*compare_on_host)(const Problem& before, const Problem& after, SumDepth);
  /// The same on the device. \throws CudaError
  Comparison (*compare_on_device)(const Problem& before, const Problem& after, SumDepth);
  /// Fills the derived inputs of a problem. \throws CudaError
  void (*derive)(const Problem&, Memory);
  /// Bytes that any implementation must move; null: those of its matrices.
  std::int64_t (*bytes_to_move)(const Sizes&, const Types&);

  /// Index of the tensor with this name. \throws std::logic_error if there is none
  int index_of(std::string_view tensor) const;

  /// Whether it is for rows of so many columns.
  bool takes(int hidden) const { return hidden % hidden_multiple == 0; }
};

/// Is this the operation's first input, x, or another that is of the same shape?
inline bool is_input_matrix(const TensorSpec& tensor) {
  return is_matrix(tensor) && is_read(tensor);
}

/// The ranks that have tensors of their own; 1 where there are none.
int ranks_of(const Operation& operation, const Sizes& sizes);

/// Lines of `hidden` elements that the largest matrix has: a row's heads are lines each.
std::int64_t lines_of(const Operation& operation, const Sizes& sizes);

/// Those that one row has in the largest matrix, or in the largest piece of one.
int lines_of_row(const Operation& operation, Sizes sizes);

/// Bytes that any implementation must move: if the description does not say it, each matrix once
/// for each direction. What is smaller, as the weight, hardly counts, and is left out.
std::int64_t bytes_to_move(const Operation& operation, const Sizes& sizes, const Types& types);

/// Bytes of a problem's tensors, of all shapes.
std::int64_t bytes_of_tensors(const Operation& operation, const Sizes& sizes, const Types& types);

/// The operation that Description<View> is about. RMSNORM_OPERATION(View) defines it, in the .cu
/// file beside the header: where the linker misses this function, that file is missing.
template <class View>
const Operation& operation_of();

}  // namespace rmsnorm
