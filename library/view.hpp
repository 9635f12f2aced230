#pragma once
/// \file
/// DLPack tensors, checked and as the kernels take them, and how the library says no.

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/contract/dtype.hpp"
#include "library/include/rmsnorm.h"
#include "library/kernels/rows.hpp"
#include "library/region.hpp"

namespace rmsnorm::library {

/// Thrown inside the library; its functions turn it into a status.
struct Refusal {
  rmsnorm_status status;  ///< not RMSNORM_OK
  std::string sentence;   ///< which argument, what it is, and what is needed
};

/// \throws Refusal with this sentence
template <class... Arguments>
[[noreturn]] void refuse(
    rmsnorm_status status, fmt::format_string<Arguments...> sentence, Arguments&&... arguments) {
  throw Refusal{status, fmt::format(sentence, std::forward<Arguments>(arguments)...)};
}

/// A tensor whose form is right.
struct View {
  const char* name;          ///< the argument's, for sentences
  Dtype dtype;               ///< of the elements
  int device;                ///< number of the CUDA device
  int dimensions;            ///< 1: a weight, or rstd; 2: that of heads, or rows; 3 or 4: rows
  std::int64_t hidden;       ///< columns
  Region region;             ///< its bytes; of 1 dimension, it is one row
  bool is_expanded = false;  ///< a row is one element in memory, which stands for all columns
};

/// The address as a number to which the tensor's distances can be added.
/// \throws Refusal if it is so large that no memory is there
std::int64_t address_of(const char* name, std::uintptr_t address, int device);

/// The heads that have a row of a weight; 1 if it is that of all rows.
inline std::int64_t heads_of(const View& weight) {
  return weight.region.size[kRowDimensions - 1];
}

/// The tensor as (rows, hidden), (batch, heads, head_dim) or (batch, tokens, heads, head_dim).
/// The columns of a row may be one element, if it `may_expand`.
/// \throws Refusal for anything that is wrong with it alone; its memory is not looked at.
View rows_of(const char* name, const DLTensor* tensor, bool may_expand = false);

/// The tensor as 8-bit rows like those of x.
/// \throws Refusal as above, and if it does not fit to x.
View fp8_rows_of(const char* name, const DLTensor* tensor, const View& x);

/// The tensor as a weight for rows of x.
/// \throws Refusal as above, and if it does not fit to x.
View weight_of(const char* name, const DLTensor* tensor, const View& x);

/// The tensor as one fp32 number for each row of x.
/// \throws Refusal as above, and if it does not fit to x.
View rstd_of(const char* name, const DLTensor* tensor, const View& x);

/// The tensor as one fp32 number.
/// \throws Refusal as above, and if it is on another device than x.
View number_of(const char* name, const DLTensor* tensor, const View& x);

/// Numbers for parts of each row of x.
struct Scales {
  View memory;               ///< all of them, those between them included
  View rows;                 ///< the first of each row, with the shape of x
  std::int64_t group_bytes;  ///< from one of a row to its next
};

/// The tensor as so many fp32 numbers for each row of x, in row order or in column order. Of one
/// for each row, a last size of 1 may be left out.
/// \throws Refusal as above, and if it does not fit to x.
Scales scales_of(const char* name, const DLTensor* tensor, const View& x, std::int64_t groups);

/// \throws Refusal if the tensor is on another device than `other`.
void check_device(const View& tensor, const View& other);

/// \throws Refusal if the tensor's elements are of another type than those of `other`.
void check_dtype(const View& tensor, const View& other);

/// \throws Refusal if the tensor has another shape than `other`.
void check_shape(const View& tensor, const View& other);

/// \throws Refusal if rows of the tensor overlap.
void check_rows_apart(const View& tensor);

/// \throws Refusal if the rows of a weight do not lie side by side.
void check_heads_together(const View& tensor);

/// \throws Refusal if writing `written` changes `other`.
void check_apart(const View& written, const View& other);

/// \throws Refusal if the tensor is not in memory of its device, which is the current one.
void check_memory(const View& tensor);

/// Where the tensor begins, as a pointer.
inline void* data_of(const View& view) {
  return reinterpret_cast<void*>(view.region.begin);
}

constexpr std::size_t kMaxTensors = 7;  ///< of a call

/// Tensors of a call.
using Views = std::vector<const View*>;

/// Rows of tensors of one shape, as the kernels take them.
struct Layout {
  std::int64_t rows;    ///< of each tensor
  std::int64_t inner;   ///< of them in the inner dimension; all, wherever that is so
  std::int64_t period;  ///< of outer indices, with a leap behind it; 0: no leaps
  std::array<kernels::Rows, kMaxTensors> tensors;  ///< in the order of the views
  std::array<std::int64_t, kMaxTensors>
      leaps;  ///< likewise: bytes by which each period lies further
};

/// Whether rows may be gone through in another order than that of their numbers.
enum class Order {
  kept,  ///< in the order of their numbers
  free,  ///< in any order
};

/// The layout of tensors that have one shape, without dimensions that can be one. Where there are
/// three left, a period is no shorter than there are periods, if the order is free. The last
/// dimension is always the inner one, unless it can be one with another.
///
/// Among the tensors may be a weight, which is one that all rows have, or all of a head. Of the
/// rows' dimensions, so many are meant, from the first on.
Layout layout_of(const Views& tensors, Order order, int dimensions = kRowDimensions);

}  // namespace rmsnorm::library
