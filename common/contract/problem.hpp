#pragma once
/// \file
/// One operation to do, as the harness knows it: tensors without a name.

#include <cstdint>
#include <string>

#include "common/contract/dtype.hpp"
#include "common/contract/types.hpp"

namespace rmsnorm {

/// Where tensors lie.
enum class Memory {
  host,    ///< the CPU's
  device,  ///< the GPU's, or the CPU device's
};

/// What a kernel does with a tensor.
enum class Role {
  input,     ///< reads it
  derived,   ///< reads it; its values follow from those of the tensors before it
  output,    ///< writes every element
  in_place,  ///< reads and writes every element
};

/// Which of a problem's sizes a tensor has.
enum class Extent {
  matrix,  ///< (rows, hidden)
  row,     ///< (hidden)
  column,  ///< (rows)
  groups,  ///< (rows, groups): of kGroup columns each, but for the last
  one,     ///< (1)
};

/// Columns of a row's group. The last group has those that are left.
inline constexpr int kGroup = 128;

/// Of which type its elements are.
enum class Elements {
  like_x,       ///< Types::dtype
  like_weight,  ///< Types::weight; without one, the tensor is not there
  fp32,         ///< always
  e4m3,         ///< likewise
  e5m2,         ///< likewise
};

/// A tensor of an operation.
struct TensorSpec {
  const char* name;        ///< as the operation's formula calls it
  Role role;               ///< what is done with it
  Extent extent;           ///< its shape
  Elements elements;       ///< their type
  std::uint64_t salt = 0;  ///< changes the seed of its random elements: no two are alike
};

/// Is something read that was there before the launch?
constexpr bool is_read(const TensorSpec& tensor) {
  return tensor.role != Role::output;
}

/// May a kernel write to it?
constexpr bool is_written(const TensorSpec& tensor) {
  return tensor.role == Role::output || tensor.role == Role::in_place;
}

/// The most tensors that an operation has.
inline constexpr int kMaxTensors = 8;

/// One operation to do. Which tensors there are, and in which order, its description says.
struct Problem {
  void* tensors[kMaxTensors] = {};   ///< null: it is not there
  void* workspace = nullptr;         ///< of as many bytes as the implementation asked for
  int rows = 0;                      ///< 0 or more; rows * hidden may exceed 2^31
  int hidden = 1;                    ///< 1 to 2^30
  float eps = 0;                     ///< 0 or more
  float weight_bias = 0;             ///< added to the weight; 0 without one
  Dtype dtype = Dtype::fp32;         ///< of tensors that are like x
  Dtype weight_dtype = Dtype::fp32;  ///< of tensors that are like the weight
  bool has_weight = true;            ///< whether those are there

  /// Element i of a tensor that is like x.
  __host__ __device__ float like_x(int tensor, std::int64_t i) const {
    return value_at(tensors[tensor], dtype, i);
  }
  /// Element `col` of a tensor that is like the weight.
  __host__ __device__ float like_weight(int tensor, std::int64_t col) const {
    return value_at(tensors[tensor], weight_dtype, col);
  }
  /// Element i of an fp32 tensor.
  __host__ __device__ float fp32(int tensor, std::int64_t i) const {
    return static_cast<const float*>(tensors[tensor])[i];
  }
  /// What the weight makes of a column, in fp64: it and its bias, or 1.
  __host__ __device__ double factor(int weight, std::int64_t col) const {
    return has_weight ? static_cast<double>(like_weight(weight, col)) + weight_bias : 1;
  }
  /// A tensor as a kernel takes it.
  template <class T>
  T* as(int tensor) const {
    return static_cast<T*>(tensors[tensor]);
  }
};

/// The types of a problem.
Types types_of(const Problem& problem);

/// Has a tensor elements for each row?
constexpr bool has_rows(const TensorSpec& tensor) {
  return tensor.extent != Extent::row && tensor.extent != Extent::one;
}

/// Elements of a tensor in a problem of so many rows and columns.
std::size_t size_of(const TensorSpec& tensor, int rows, int hidden);

/// The type of a tensor's elements; also if there is no weight.
Dtype dtype_of(const TensorSpec& tensor, const Types& types);

/// Is the tensor there in problems of these types?
bool is_there(const TensorSpec& tensor, const Types& types);

}  // namespace rmsnorm
