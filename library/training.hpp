#pragma once
/// \file
/// The arguments that backward passes have in common.

#include <cstddef>
#include <optional>

#include "library/view.hpp"

namespace rmsnorm::library {

// All throw a Refusal for anything that is wrong.

/// The tensor as the x of a pass of training.
View input_of(const DLTensor* tensor);

/// A weight and what is to be its gradient.
struct TrainedWeight {
  std::optional<View> weight;    ///< none: all ones
  std::optional<View> gradient;  ///< none: it is unwanted
  Dtype dtype;                   ///< of both
  int heads;                     ///< that have a row each, or 1
  std::int64_t head;             ///< bytes from a head's row of the weight to the next one's
};

/// They, for rows of x; dweight is of the weight's shape and type.
TrainedWeight trained_weight(
    const DLTensor* weight, const DLTensor* dweight, const View& x, float weight_bias);

/// Bytes of a workspace for a number of heads that have a weight, and of rows of each.
using BytesFor = std::size_t (*)(int rows, int hidden, int heads, Dtype dtype);

/// Enough for x with a weight of all rows and with one of each head.
std::size_t workspace_bytes_for(const View& x, BytesFor bytes_for);

/// The memory as a workspace.
/// \param memory  where it begins
/// \param bytes   that the caller says it has
/// \param needed  bytes
/// \param x       on whose device it is
View workspace_of(void* memory, std::size_t bytes, std::size_t needed, const View& x);

}  // namespace rmsnorm::library
