#pragma once
/// \file
/// DLPack tensors for the tests of the library: any layout in an array of the device.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/lesson.hpp"
#include "common/contract/types.hpp"
#include "common/cpu_device/interface/watching.hpp"
#include "library/include/rmsnorm.h"

namespace tests {

/// DLPack's name for a type.
DLDataType dl_type(rmsnorm::Dtype dtype);

/// All types that the library takes: also a weight of 16 bits beside an x of another type.
std::vector<rmsnorm::Types> types_of_library();

/// Numbers in the device's memory, and what they were before any kernel ran.
class DeviceArray {
 public:
  /// Random numbers, none of them 0; the first lies at a multiple of 256.
  DeviceArray(rmsnorm::Dtype dtype, std::int64_t size, std::uint64_t seed);
  ~DeviceArray();
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  rmsnorm::Dtype dtype() const { return dtype_; }               ///< of the elements
  void* data() const { return data_; }                          ///< the first element
  const std::vector<float>& before() const { return before_; }  ///< the numbers
  std::vector<float> now() const;        ///< what has become of them, after all work has ended
  std::vector<std::byte> bytes() const;  ///< the same, as it lies in memory
  void fill(const std::vector<std::byte>& bytes) const;  ///< other numbers, before any kernel runs
  void set(std::int64_t i, float number) const;          ///< another one, likewise

 private:
  rmsnorm::Dtype dtype_;
  void* data_ = nullptr;
  std::vector<float> before_;
};

/// Where a tensor lies in an array. All numbers are elements.
struct Layout {
  std::vector<std::int64_t> shape;    ///< the last is hidden
  std::vector<std::int64_t> strides;  ///< of each dimension
  std::int64_t offset = 0;            ///< of the first element

  std::int64_t rows() const;                    ///< how many
  std::int64_t hidden() const;                  ///< columns of a row
  std::int64_t row(std::int64_t number) const;  ///< a row's first element
};

/// A layout's first element, and the end of its last.
std::pair<std::int64_t, std::int64_t> ends_of(const Layout& layout);

/// Rows that lie one after the other.
Layout contiguous(std::vector<std::int64_t> shape, std::int64_t offset = 0);

/// Random numbers, the same ones in every run.
struct Draw {
  std::mt19937 engine;

  /// A number from `from` to `to`, both included.
  int operator()(int from, int to) { return std::uniform_int_distribution<int>(from, to)(engine); }
};

/// Rows of this shape, the last size being hidden, with each dimension within another, in any
/// order, with gaps or without, forwards or backwards. All distances are multiples of `unit`
/// elements if hidden is. Of an input, all rows of a dimension may be one.
Layout random_layout(Draw& draw, std::vector<std::int64_t> shape, int unit, bool is_output);

/// The layout in the array, which both have to outlive the view.
DLTensor view_of(const DeviceArray& array, Layout& layout);

/// The part of a tensor that has this shape, which has to outlive it, and begins so many elements
/// further.
DLTensor part_of(const DLTensor& tensor, std::vector<std::int64_t>& shape, std::int64_t elements);

/// A tensor in an array of its own, with a few elements behind it that are nobody's.
struct DeviceTensor {
  DeviceTensor(rmsnorm::Dtype dtype, Layout at, std::uint64_t seed);
  DeviceTensor(const DeviceTensor&) = delete;

  /// An element as it was before any kernel ran.
  float before(std::int64_t row, std::int64_t col) const {
    return array.before()[layout.row(row) + col * layout.strides.back()];
  }

  Layout layout;
  DeviceArray array;
  DLTensor view;
};

/// From the tensor's first element to its last: what a kernel may touch.
rmsnorm::KnownMemory extent(const std::string& name, const DeviceTensor& tensor);

/// A call of the library, which has to do it, and to touch nothing but this memory.
void call_watched(
    const std::vector<rmsnorm::KnownMemory>& touched, const std::function<rmsnorm_status()>& call);

/// A value, and how far a result may be from it.
struct Allowed {
  double value, error;
};

/// A value of this size, computed in fp32 with so many additions at most, and rounded to a type.
Allowed in_fp32(int additions, double value, double size, rmsnorm::Dtype dtype);

/// What is to become of an element; nothing if it stays as it is.
using Wanted = std::function<std::optional<Allowed>(std::int64_t row, std::int64_t col)>;

/// Checks the elements of a tensor in what its array has become, where those that are wanted are
/// then as they were before.
void check_elements(
    const DeviceArray& array, const Layout& at, const Wanted& expected, std::vector<float>& now);

/// Checks each element of the tensor, and that nothing else of its array has changed.
void check_elements(const DeviceTensor& got, const Wanted& expected);

/// What all norms are called with.
constexpr float kEps = 0x1p-10f;

/// What is to be normed.
using Values = std::function<float(std::int64_t row, std::int64_t col)>;

/// What a norm is multiplied by.
using Factors = std::function<double(std::int64_t row, std::int64_t col)>;

/// A tensor's elements as they were before any kernel ran.
Values values_of(const DeviceTensor& x);

/// The weight and its bias, or ones if it is null.
Factors factors_of(const DeviceTensor* weight, float bias = 0);

/// The sum in fp32 of x and the residual, which has to have it now; without a residual, x.
Values check_sum(const DeviceTensor& x, const DeviceTensor* residual);

/// The norm of x, which lies in rows as `at` has them. Of y, rounding can move a part: that of an
/// fp32 kernel, and once more that to the type. No kernel adds a square more often than is said
/// here.
std::function<Allowed(std::int64_t row, std::int64_t col)> norm_of(
    const Values& x, const Layout& at, rmsnorm::Dtype dtype, const Factors& factors);

/// One call of rmsnorm_forward or, if there is a residual, of rmsnorm_residual_add.
struct NormCall {
  rmsnorm::Types types;
  Layout x, y;
  std::optional<Layout> residual = {};
  bool in_place = false;  ///< the norm is written to x
  std::int64_t weight_offset = 0;
  std::optional<rmsnorm::Dtype> residual_dtype = {};  ///< else that of x
  bool weight_of_heads = false;  ///< one for each index of the last dimension but one
};

/// A call with random types, of rows in random layouts of two to four dimensions.
NormCall random_call(Draw& draw);

/// All that the call is about, for a message.
std::string text(const NormCall& call);

/// Where the call's weight lies.
Layout weight_layout(const NormCall& call);

}  // namespace tests
