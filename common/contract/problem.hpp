#pragma once
/// \file
/// One operation to do, as the harness knows it: tensors without a name.

#include <cstdint>
#include <string_view>

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

inline constexpr int kMaxSizes = 4;     ///< the most sizes beside rows and columns
inline constexpr int kMaxScalars = 2;   ///< the most scalars beside eps
inline constexpr int kMaxSides = 4;     ///< the most sides of a tensor
inline constexpr int kMaxTensors = 16;  ///< the most tensors of an operation

/// The sizes of a problem: rows and columns, and those that its operation has besides.
struct Sizes {
  int rows = 0;              ///< 0 or more; rows * hidden may exceed 2^31
  int hidden = 1;            ///< columns, 1 to 2^30
  int more[kMaxSizes] = {};  ///< in the order of Operation::sizes
};

/// A size that an operation has beside rows and columns.
struct SizeSpec {
  const char* name;  ///< as the command line has it: "q_heads"
  int most;          ///< it is from 1 to this
  int values[3];     ///< those that a check tries, all three, the usual one first
};

/// A scalar that an operation has beside eps.
struct ScalarSpec {
  const char* name;  ///< as the command line has it
  float values[3];   ///< those that a check tries, all three, the usual one first
};

/// One side of a tensor. Its length is a size of the problem, or follows from sizes.
struct Side {
  const char* one = "";                            ///< what one place along it is called: "row"
  std::int64_t (*length)(const Sizes&) = nullptr;  ///< how many places there are
  bool is_apart = false;  ///< what belongs to one place has memory of its own: a piece

  /// Whether both have the same length in every problem.
  constexpr bool operator==(const Side& other) const { return length == other.length; }
};

/// Columns of a row's group. The last group has those that are left.
inline constexpr int kGroup = 128;
/// Columns of a row's block, of which each has a scale that is a power of two.
inline constexpr int kScaleBlock = 32;

/// Lengths, and the sides that have them. Those of an operation alone are in its description.
namespace side {

/// Of rows.
constexpr std::int64_t length_of_rows(const Sizes& sizes) {
  return sizes.rows;
}
/// Of hidden.
constexpr std::int64_t length_of_hidden(const Sizes& sizes) {
  return sizes.hidden;
}
/// Of groups.
constexpr std::int64_t length_of_groups(const Sizes& sizes) {
  return (sizes.hidden - 1) / kGroup + 1;
}
/// Of blocks.
constexpr std::int64_t length_of_blocks(const Sizes& sizes) {
  return sizes.hidden / kScaleBlock;
}
/// Of the operation's size number i beside rows and columns.
template <int i>
constexpr std::int64_t length_of(const Sizes& sizes) {
  return sizes.more[i];
}

inline constexpr Side rows = {"row", length_of_rows};         ///< those of the problem
inline constexpr Side hidden = {"column", length_of_hidden};  ///< its columns
inline constexpr Side groups = {"group", length_of_groups};   ///< of kGroup columns each
inline constexpr Side blocks = {"block", length_of_blocks};   ///< of kScaleBlock columns each

}  // namespace side

/// The sides of a tensor, in row-major order; of one element, none. Rows come first, or behind the
/// side of pieces: what belongs to a row lies together. It is an aggregate, without a
/// constructor that takes a list: for nvcc 13.0, an empty list has one side.
struct Sides {
  Side all[kMaxSides];  ///< behind the last one there is nothing

  constexpr const Side* begin() const { return all; }         ///< the outermost
  constexpr const Side* end() const { return all + size(); }  ///< behind the innermost
  /// How many there are.
  constexpr int size() const {
    int size = 0;
    while (size < kMaxSides && all[size].one[0] != '\0') ++size;
    return size;
  }
  /// Is it one of them?
  constexpr bool has(const Side& side) const {
    for (const Side& mine : *this) {
      if (mine == side) return true;
    }
    return false;
  }
};

/// Of which type its elements are.
enum class Elements {
  like_x,       ///< Types::dtype
  like_weight,  ///< Types::weight; without one, the tensor is not there
  fp32,         ///< always
  e4m3,         ///< likewise
  e5m2,         ///< likewise
  e8m0,         ///< likewise; they are written alone
  int32,        ///< likewise; they are read, and never written
};

/// What the integers of a tensor are: each is 0 or more, and below a length.
struct Integers {
  std::int64_t (*below)(const Sizes&) = nullptr;  ///< that length
  bool are_distinct = false;                      ///< no two are alike
};

/// A tensor of an operation.
struct TensorSpec {
  const char* name;        ///< as the operation's formula calls it
  Role role;               ///< what is done with it
  Sides sides;             ///< its shape
  Elements elements;       ///< their type
  std::uint64_t salt = 0;  ///< changes the seed of its random elements: no two are alike
  Integers integers = {};  ///< where they are int32
  /// The tensor whose integers say which places along the first side a kernel writes, and no
  /// others; "" where it writes all.
  const char* places = "";
};

/// Has it a row for each of the problem's, of all columns?
constexpr bool is_matrix(const TensorSpec& tensor) {
  const Sides& sides = tensor.sides;
  return sides.size() > 1 && sides.end()[-1] == side::hidden && sides.has(side::rows);
}

/// Columns from the first one of an element to that of the next.
constexpr int columns_apart(const TensorSpec& tensor) {
  if (tensor.sides.has(side::groups)) return kGroup;
  return tensor.sides.has(side::blocks) ? kScaleBlock : 1;
}

/// Is its memory in one piece for each place along its first side?
constexpr bool is_apart(const TensorSpec& tensor) {
  return tensor.sides.size() > 0 && tensor.sides.begin()->is_apart;
}

/// Is something read that was there before the launch?
constexpr bool is_read(const TensorSpec& tensor) {
  return tensor.role != Role::output;
}

/// May a kernel write to it?
constexpr bool is_written(const TensorSpec& tensor) {
  return tensor.role == Role::output || tensor.role == Role::in_place;
}

/// Where the pieces of a tensor are (is_apart), in bytes. From each to the next it is further than
/// from the one before, and they need not be aligned alike: no piece can stand for another.
struct Pieces {
  std::int64_t apart = 0;    ///< from the first to the second, less `further`
  std::int64_t further = 0;  ///< what each such distance has more than the one before it

  /// From the first piece to number i.
  __host__ __device__ constexpr std::int64_t offset(std::int64_t i) const {
    return i * apart + i * (i + 1) / 2 * further;
  }
};

/// One operation to do. Which tensors there are, and in which order, its description says.
struct Problem : Sizes {
  void* tensors[kMaxTensors] = {};   ///< null: it is not there
  Pieces pieces[kMaxTensors] = {};   ///< of each tensor; 0, 0: all are in one place
  void* workspace = nullptr;         ///< of as many bytes as the implementation asked for
  Pieces workspace_pieces = {};      ///< where each rank has such a workspace of its own
  float eps = 0;                     ///< 0 or more
  float scalars[kMaxScalars] = {};   ///< in the order of Operation::scalars
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
  /// Element i of a tensor of integers.
  __host__ __device__ int integer(int tensor, std::int64_t i) const {
    return static_cast<const int*>(tensors[tensor])[i];
  }
  /// Piece i of a tensor whose pieces have memory of their own.
  __host__ __device__ void* piece(int tensor, int i) const {
    return static_cast<char*>(tensors[tensor]) + pieces[tensor].offset(i);
  }
  /// The workspace of a rank.
  __host__ __device__ void* workspace_of(int rank) const {
    return static_cast<char*>(workspace) + workspace_pieces.offset(rank);
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
  return tensor.sides.has(side::rows);
}

/// Elements of a tensor.
std::size_t size_of(const TensorSpec& tensor, const Sizes& sizes);

/// Pieces of a tensor: one, unless each has memory of its own.
int pieces_of(const TensorSpec& tensor, const Sizes& sizes);

/// Is its first side the ranks: GPUs, of which each has tensors of its own?
constexpr bool is_of_ranks(const TensorSpec& tensor) {
  return is_apart(tensor) && tensor.sides.begin()->one == std::string_view("rank");
}

/// The type of a tensor's elements; also if there is no weight.
Dtype dtype_of(const TensorSpec& tensor, const Types& types);

/// Is the tensor there in problems of these types?
bool is_there(const TensorSpec& tensor, const Types& types);

}  // namespace rmsnorm
