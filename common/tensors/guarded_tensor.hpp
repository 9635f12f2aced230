#pragma once
/// \file
/// Memory for a tensor of each of several problems alike, between guards that no kernel may touch.
///
///     | guard | tensor of set 0 | guard | tensor of set 1 | guard | ...
///
/// Where a tensor is of pieces, each has memory of its own, as a tensor has. The guards grow, so
/// that no two pieces are as far apart as two others:
///
///     | guard | piece 0 of set 0 | guard | piece 1 of set 0 |  guard  | piece 2 of set 0 | ...

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/contract/dtype.hpp"
#include "common/tensors/buffer.hpp"

namespace rmsnorm {

/// What an element of a tensor is filled with.
enum class Content {
  x,       ///< random_x
  weight,  ///< random_weight
  scale,   ///< random_scale, which is another one for each length of a row
  below,   ///< integers from 0 to below that length
  places,  ///< likewise, no two alike: the length is that of the tensor, at least
  nan,     ///< not a number
  poison,  ///< what no arithmetic produces
};

/// The tensors of one kind.
///
/// The guards of what a kernel reads hold NaN, which spreads into its result; those of what it
/// writes hold poison (contract/expected.hpp), as the tensor itself does before every verified
/// launch: what was not written, and what should not have been, can be told.
class GuardedTensor {
 public:
  static constexpr std::size_t kGuardBytes = 4096;  ///< before and after a tensor

  /// Allocates `sets` tensors of `size` elements, each of which starts `misalign` elements behind a
  /// 256-byte boundary. Each is of so many pieces, all of one size. Piece i starts i * (i + 1) / 2
  /// times `uneven` elements later behind its boundary: 0, 1, 3, 6, ... times.
  /// \throws CudaError or std::bad_alloc if memory is short.
  GuardedTensor(
      Memory memory, Dtype dtype, std::size_t size, int sets, int misalign, int pieces = 1,
      int uneven = 0);

  /// Fills the tensor of each set, with seeds that begin at `seed`, in rows of `length` elements,
  /// and all else with the guard's content.
  void fill(Content content, std::uint64_t seed, std::int64_t length, Content guard) const;

  /// Fills everything with one content, and waits for it.
  void fill(Content content) const;

  void* data(int set = 0, int piece = 0) const;  ///< the tensor of one set, or a piece of it
  std::size_t size() const { return piece_size() * pieces_; }  ///< elements of a tensor
  std::size_t piece_size() const { return piece_size_; }       ///< elements of a piece
  int pieces() const { return pieces_; }                       ///< of a tensor
  Pieces where_pieces_are() const;                             ///< from the first one of a set
  Dtype dtype() const { return dtype_; }                       ///< of the elements
  const void* guard(int side, int piece = 0) const;  ///< before (0) or after (1) one of set 0
  std::vector<float> values() const;                 ///< of set 0
  std::vector<int> integers() const;                 ///< the same of int32, without pieces
  void set(
      const std::vector<float>& values) const;  ///< replaces those of set 0, rounded to the type

  std::uint64_t hash() const;                ///< of everything. \throws CudaError
  std::uint64_t hash_without_first() const;  ///< of all but the tensor of set 0. \throws CudaError
  std::uint64_t hash_of_first() const;       ///< of the tensor of set 0. \throws CudaError

  /// Bytes that these tensors take, at most.
  static std::size_t bytes(Dtype dtype, std::size_t size, int sets, int pieces = 1);

 private:
  std::uint64_t hash(const void* data, std::size_t bytes) const;

  Memory memory_;
  Dtype dtype_;
  std::size_t piece_size_;
  int pieces_;
  int sets_;
  int misalign_;
  int uneven_;
  Buffer buffer_;
};

}  // namespace rmsnorm
