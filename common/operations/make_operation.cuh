#pragma once
/// \file
/// From a Description to the functions of an Operation: the comparison of every element with the
/// fp64 reference, on the host and on the device, and what derived inputs are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>

#include "common/base/cuda_check.hpp"
#include "common/contract/operation.hpp"
#include "common/tensors/buffer.hpp"

namespace rmsnorm {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kNothing = -1;

/// What the comparison of one element found, to be told.
struct Told {
  float got;
  double expected, allowed;
};

/// What a pass over a tensor is to leave behind: of all its elements, or of the one called
/// `wanted`.
struct Findings {
  std::int64_t wanted = kNothing;  ///< its index in the tensor
  unsigned long long first_wrong = static_cast<unsigned long long>(kNothing);  ///< the smallest
  unsigned long long max_error_bits = 0;  ///< of a double >= 0: in the order of the values
  Told told = {};                         ///< of `wanted`
};

/// Whether a check says itself how many sums there are, and which elements are of which.
template <class Check>
concept HasLines = requires(const Problem& p) {
  Check::lines(p);
};

/// How many sums a problem has.
template <class Check>
std::int64_t number_of_sums(const Problem& p) {
  if constexpr (HasLines<Check>) {
    return Check::lines(p);
  } else {
    return Check::kAlong == Along::row ? p.rows : p.hidden;
  }
}

/// The groups of a tensor's elements that have a sum in common, and where their elements are.
template <class Check>
struct Groups {
  Dtype dtype;           ///< of the elements
  std::int64_t number;   ///< how many groups there are
  std::int64_t terms;    ///< of each sum
  std::int64_t members;  ///< elements of the tensor in each
  std::int64_t piece;    ///< elements of the tensor in one piece of memory
  int columns;           ///< from a member to the next

  Groups(const TensorSpec& tensor, const Problem& p)
      : dtype(dtype_of(tensor, types_of(p))),
        number(number_of_sums<Check>(p)),
        terms(Check::kAlong == Along::row ? p.hidden : p.rows),
        members(
            HasLines<Check> ? terms
            : number == 0   ? 0
                            : static_cast<std::int64_t>(size_of(tensor, p)) / number),
        piece(std::max<std::int64_t>(1, size_of(tensor, p) / pieces_of(tensor, p))),
        columns(columns_apart(tensor)) {}

  /// An element's row, or its line where there are lines, its column, and its index in the tensor.
  struct Place {
    std::int64_t row, col, index;
  };
  /// Member i of a group.
  __host__ __device__ Place member(const Problem& p, std::int64_t group, std::int64_t i) const {
    if constexpr (HasLines<Check>) return {group, i, Check::index(p, group, i)};
    if (Check::kAlong == Along::column) return {0, group, group};
    return {group, i * columns, group * members + i};
  }
  /// Term i of the group's sum: its row, or line, and its column.
  struct Term {
    std::int64_t row, col;
  };
  __host__ __device__ static Term term(std::int64_t group, std::int64_t i) {
    return Check::kAlong == Along::row ? Term{group, i} : Term{i, group};
  }
};

template <class Check>
__host__ __device__ ElementCheck check_member(
    const Problem& before, const Problem& after, const Groups<Check>& groups,
    const typename Check::Sum& sum, const typename Groups<Check>::Place& at, double bound,
    Told& told) {
  const void* const piece = after.piece(Check::kTensor, static_cast<int>(at.index / groups.piece));
  const float got = value_at(piece, groups.dtype, at.index % groups.piece);
  const ElementCheck check =
      check_element(got, Check::expected(before, sum, at.row, at.col, bound), groups.dtype);
  told = {got, check.expected, check.allowed};
  return check;
}

template <class Check>
__host__ __device__ void store_member(
    const Problem& p, const Groups<Check>& groups, const typename Check::Sum& sum,
    const typename Groups<Check>::Place& at) {
  const auto value = static_cast<float>(Check::expected(p, sum, at.row, at.col, 0).value);
  set_bits(p.tensors[Check::kTensor], groups.dtype, at.index, bits_of(groups.dtype, value));
}

/// The sum of every `step`-th term of a group, from the first one on.
template <class Check>
__host__ __device__ typename Check::Sum sum_of_terms(
    const Problem& before, const Groups<Check>& groups, std::int64_t group, int first, int step) {
  typename Check::Sum sum;
  for (std::int64_t i = first; i < groups.terms; i += step) {
    const auto at = groups.term(group, i);
    Check::add(sum, Check::term(before, at.row, at.col));
  }
  return sum;
}

/// The sum of a block's threads, which each thread gets.
template <class Check>
__device__ typename Check::Sum block_sum(const typename Check::Sum& mine) {
  using Sum = typename Check::Sum;
  // Not an array of sums: a shared variable cannot be made by a constructor.
  __shared__ double memory[kThreads * (sizeof(Sum) + sizeof(double) - 1) / sizeof(double)];
  Sum* const partial = reinterpret_cast<Sum*>(memory);
  __syncthreads();  // everybody has read the sum before this one
  partial[threadIdx.x] = mine;
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    __syncthreads();
    if (threadIdx.x < stride) Check::add(partial[threadIdx.x], partial[threadIdx.x + stride]);
  }
  __syncthreads();
  return partial[0];
}

/// The sum of a group, by all threads of a block.
template <class Check>
__device__ typename Check::Sum sum_on_device(
    const Problem& before, const Groups<Check>& groups, std::int64_t group) {
  return block_sum<Check>(sum_of_terms(before, groups, group, threadIdx.x, kThreads));
}

/// One block a group.
template <class Check>
__global__ void compare_groups(
    Problem before, Problem after, Groups<Check> groups, double bound, Findings* findings) {
  double max_error = 0;
  for (std::int64_t group = blockIdx.x; group < groups.number; group += gridDim.x) {
    const auto sum = sum_on_device<Check>(before, groups, group);
    for (std::int64_t i = threadIdx.x; i < groups.members; i += kThreads) {
      const auto at = groups.member(before, group, i);
      Told told;
      const ElementCheck check = check_member(before, after, groups, sum, at, bound, told);
      if (!check.ok) atomicMin(&findings->first_wrong, static_cast<unsigned long long>(at.index));
      if (at.index == findings->wanted) findings->told = told;
      max_error = fmax(max_error, check.error);
    }
  }
  atomicMax(
      &findings->max_error_bits, static_cast<unsigned long long>(__double_as_longlong(max_error)));
}

/// Stores what the elements of a tensor should be.
template <class Check>
__global__ void store_groups(Problem p, Groups<Check> groups) {
  for (std::int64_t group = blockIdx.x; group < groups.number; group += gridDim.x) {
    const auto sum = sum_on_device<Check>(p, groups, group);
    for (std::int64_t i = threadIdx.x; i < groups.members; i += kThreads) {
      store_member(p, groups, sum, groups.member(p, group, i));
    }
  }
}

unsigned blocks_for(std::int64_t groups) {
  return static_cast<unsigned>(std::min<std::int64_t>(groups, 1 << 16));
}

/// One tensor's part of a comparison.
template <class Check, const TensorSpec* kTensors>
class Output {
 public:
  Output(const Problem& before, const Problem& after, SumDepth depth)
      : before_(before),
        after_(after),
        groups_(kTensors[Check::kTensor], before),
        bound_(bound(before, depth)) {}

  static double bound(const Problem& p, SumDepth depth) {
    return Check::bound(Check::kAlong == Along::row ? depth.row : depth.column, types_of(p));
  }

  void on_host(Comparison& found) const {
    std::int64_t first = kNothing;
    Told of_first{};
    double max_error = 0;
    for (std::int64_t group = 0; group < groups_.number; ++group) {
      const auto sum = sum_of_terms(before_, groups_, group, 0, 1);
      for (std::int64_t i = 0; i < groups_.members; ++i) {
        const auto at = groups_.member(before_, group, i);
        Told told;
        const ElementCheck check = check_member(before_, after_, groups_, sum, at, bound_, told);
        max_error = std::max(max_error, check.error);
        if (check.ok || (first != kNothing && first < at.index)) continue;
        first = at.index;
        of_first = told;
      }
    }
    add(found, first, of_first, max_error);
  }

  void on_device(Comparison& found) const {
    if (groups_.number == 0) return;
    Findings all = pass(Findings{});
    double max_error;
    std::memcpy(&max_error, &all.max_error_bits, sizeof max_error);
    const auto first = static_cast<std::int64_t>(all.first_wrong);
    if (first != kNothing) {
      Findings one;
      one.wanted = first;
      all.told = pass(one).told;
    }
    add(found, first, all.told, max_error);
  }

 private:
  Findings pass(Findings findings) const {
    const Buffer buffer(Memory::device, sizeof findings);
    auto* const on_device = reinterpret_cast<Findings*>(buffer.data());
    copy_bytes(on_device, &findings, sizeof findings);
    compare_groups<Check>
        <<<blocks_for(groups_.number), kThreads>>>(before_, after_, groups_, bound_, on_device);
    cuda_check(cudaGetLastError(), "starting the comparison");
    copy_bytes(&findings, on_device, sizeof findings);
    return findings;
  }

  /// \param first the first wrong element, if there is one
  void add(Comparison& found, std::int64_t first, const Told& told, double max_error) const {
    found.max_error = std::max(found.max_error.value_or(0), max_error);
    if (first == kNothing || found.mismatch) return;
    found.mismatch = mismatch_at(kTensors[Check::kTensor], before_, first);
    found.mismatch->got = told.got;
    found.mismatch->expected = told.expected;
    found.mismatch->allowed = told.allowed;
  }

  const Problem& before_;
  const Problem& after_;
  Groups<Check> groups_;
  double bound_;
};

/// Calls one.template operator()<Output>() for each check whose tensor is there.
template <class View, class... Check, class Visit>
void for_outputs(Checks<Check...>, const Problem& p, const Visit& visit) {
  const auto with = [&]<class One>() {
    const TensorSpec& tensor = Description<View>::kTensors[One::kTensor];
    if (!is_there(tensor, types_of(p))) return;
    visit.template operator()<Output<One, Description<View>::kTensors>>(tensor);
  };
  (with.template operator()<Check>(), ...);
}

template <class View>
double error_bound(const Problem& p, SumDepth depth) {
  double most = 0;
  for_outputs<View>(
      typename Description<View>::Outputs(), p, [&]<class One>(const TensorSpec& tensor) {
        const double rounding = rounding_error(dtype_of(tensor, types_of(p)));
        most = std::max(most, One::bound(p, depth) + rounding);
      });
  return most;
}

template <class View, bool kOnHost>
Comparison compare(const Problem& before, const Problem& after, SumDepth depth) {
  Comparison found;
  for_outputs<View>(
      typename Description<View>::Outputs(), before, [&]<class One>(const TensorSpec& tensor) {
        const auto number = &tensor - Description<View>::kTensors;
        if (after.tensors[number] == nullptr) return;  // it is not wanted
        const One output(before, after, depth);
        kOnHost ? output.on_host(found) : output.on_device(found);
      });
  return found;
}

template <class View, class Check>
void derive_one(const Problem& p, Memory memory) {
  const Groups<Check> groups(Description<View>::kTensors[Check::kTensor], p);
  if (groups.number == 0) return;
  if (memory == Memory::device) {
    store_groups<Check><<<blocks_for(groups.number), kThreads>>>(p, groups);
    cuda_check(cudaGetLastError(), "computing an input from others");
    return;
  }
  for (std::int64_t group = 0; group < groups.number; ++group) {
    const auto sum = sum_of_terms(p, groups, group, 0, 1);
    for (std::int64_t i = 0; i < groups.members; ++i) {
      store_member(p, groups, sum, groups.member(p, group, i));
    }
  }
}

template <class View, class... Check>
void derive(Checks<Check...>, const Problem& p, [[maybe_unused]] Memory memory) {
  (derive_one<View, Check>(p, memory), ...);
}

// What the harness takes for granted of a description.

/// Whether what belongs to a row lies together: rows are the first side, or the first of a piece.
/// Known by their name: no function's address is a constant for g++ with -fsanitize=undefined.
constexpr bool has_rows_first(const TensorSpec& tensor) {
  for (int i = is_apart(tensor) ? 2 : 1; i < tensor.sides.size(); ++i) {
    if (tensor.sides.all[i].one == std::string_view(side::rows.one)) return false;
  }
  return true;
}

/// Whether a check can try all three values of each size.
constexpr bool are_tried(std::span<const SizeSpec> sizes) {
  for (const SizeSpec& size : sizes) {
    for (const int value : size.values) {
      if (value < 1 || value > size.most) return false;
    }
  }
  return true;
}

template <class View>
const Operation& make_operation() {
  using D = Description<View>;
  static_assert(std::is_same_v<typename D::Of, View>, "Of is the struct that is described");
  static_assert(
      std::all_of(std::begin(D::kTensors), std::end(D::kTensors), has_rows_first),
      "rows are the first side, or that of a piece");
  static_assert(are_tried(D::kSizes), "a size has three values, each from 1 to the most");
  static_assert(
      std::size(D::kTensors) <= kMaxTensors && std::size(D::kSizes) <= kMaxSizes &&
          std::size(D::kScalars) <= kMaxScalars,
      "there are more than a Problem has room for");
  static const Operation operation = {
      .name = D::kName,
      .tensors = {std::begin(D::kTensors), std::end(D::kTensors)},
      .sizes = {std::begin(D::kSizes), std::end(D::kSizes)},
      .scalars = {std::begin(D::kScalars), std::end(D::kScalars)},
      .hidden_multiple = D::kHiddenMultiple,
      .has_eps = D::kHasEps,
      .same_bits = D::kSameBits,
      .regime = D::kRegime,
      .error_bound = error_bound<View>,
      .compare_on_host = compare<View, true>,
      .compare_on_device = compare<View, false>,
      .derive = [](const Problem& p,
                   Memory memory) { derive<View>(typename D::Derived(), p, memory); },
      .bytes_to_move = D::bytes_to_move};
  return operation;
}

}  // namespace
}  // namespace rmsnorm

/// Compiles the operation that Description<rmsnorm::View> is about.
#define RMSNORM_OPERATION(View)                                      \
  template <>                                                        \
  const rmsnorm::Operation& rmsnorm::operation_of<rmsnorm::View>() { \
    return make_operation<View>();                                   \
  }
