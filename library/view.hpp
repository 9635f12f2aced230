#pragma once
/// \file
/// The arguments of a call, checked and as the kernels take them, and how the library says no.

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
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
template <class... Parts>
[[noreturn]] void refuse(
    rmsnorm_status status, fmt::format_string<Parts...> sentence, Parts&&... parts) {
  throw Refusal{status, fmt::format(sentence, std::forward<Parts>(parts)...)};
}

/// \throws Refusal with this sentence if something is not right
template <class... Parts>
void require(
    bool is_right, rmsnorm_status status, fmt::format_string<Parts...> sentence, Parts&&... parts) {
  if (!is_right) refuse(status, sentence, std::forward<Parts>(parts)...);
}

/// A tensor as it is passed.
struct Argument {
  const char* name;        ///< for sentences
  const DLTensor* tensor;  ///< null, or what is to be looked at
};

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

/// The heads that have a row of a weight; 1 if it is that of all rows.
inline std::int64_t heads_of(const View& weight) {
  return weight.region.size[kRowDimensions - 1];
}

// All that follow throw a Refusal for anything that is wrong with the tensor alone, or does not fit
// x. Only check_memory() asks where memory is.

/// The tensor as (rows, hidden), (batch, heads, head_dim) or (batch, tokens, heads, head_dim).
View rows_of(const Argument& argument);

/// The types that the elements of an output may have.
enum class Elements {
  of_x,     ///< that of x
  numbers,  ///< any of those that x may have
  fp8,      ///< any of 8 bits
};

/// Rows of the shape and the type of x. If it may expand, the columns of a row may be one element.
View input_like(const Argument& argument, const View& x, bool may_expand = false);

/// Rows of the shape of x, none of which overlap.
View output_like(const Argument& argument, const View& x, Elements elements = Elements::of_x);

/// The tensor as a weight for rows of x.
View weight_of(const Argument& argument, const View& x);

/// The weight, if there is one: else there is no weight_bias to be added to it.
std::optional<View> weight_or_none(const Argument& argument, const View& x, float weight_bias);

/// The tensor as one fp32 number for each row of x.
View rstd_of(const Argument& argument, const View& x);

/// The tensor as one fp32 number.
View number_of(const Argument& argument, const View& x);

/// Numbers for parts of each row of x.
struct Scales {
  View memory;               ///< all of them, those between them included
  View rows;                 ///< the first of each row, with the shape of x; in tiles, its number
  std::int64_t group_bytes;  ///< from one of a row to its next
  bool is_e8m0 = false;      ///< powers of two, a byte each
  bool are_tiled = false;    ///< in tiles of 128 rows and 4 groups
};

/// Are a tensor's elements bytes, as powers of two are passed?
bool is_e8m0(const Argument& argument);

/// The tensor as so many numbers for each row of x, in row order or in column order: fp32, or
/// powers of two. Of one for each row, a last size of 1 may be left out.
Scales scales_of(const Argument& argument, const View& x, std::int64_t groups, bool are_powers);

/// The tensor of bytes as so many powers of two for each row of x, in tiles.
Scales tiles_of(const Argument& argument, const View& x, std::int64_t groups);

/// A type's name, for sentences.
std::string name_of(DLDataType dtype);

/// The address as a number to which distances can be added: where one is so large that no memory is
/// there, it is refused.
std::int64_t address_of(const char* name, std::uintptr_t address, int device);

void check_number(const char* name, float number, bool may_be_negative);  ///< a finite number
void check_rounding(rmsnorm_rounding rounding);                           ///< one that there is
void check_device(const View& tensor, const View& other);                 ///< the same device
void check_dtype(const View& tensor, const View& other);                  ///< the same type
void check_shape(const View& tensor, const View& other);                  ///< the same shape
void check_heads_together(const View& weight);                            ///< heads side by side
void check_apart(const View& written, const View& other);                 ///< no byte in common
void check_memory(const View& tensor);  ///< memory of its device, which is the current one

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
