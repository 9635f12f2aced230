#pragma once
/// \file
/// The arguments that backward passes have in common.

#include <cstddef>
#include <optional>
#include <vector>

#include "library/kernels/backward.hpp"
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

/// Gives a backward pass its weight.
template <class Backward>
void set_weight(Backward& op, const TrainedWeight& trained) {
  op.weight = trained.weight ? data_of(*trained.weight) : nullptr;
  op.dweight = trained.gradient ? data_of(*trained.gradient) : nullptr;
  op.weight_dtype = trained.dtype;
  op.weight_head = trained.head;
  op.heads = trained.heads;
}

/// Gives a backward pass whose heads are known its rows. Heads with a weight of their own are
/// apart: rows are then those of one head.
/// \param op       the operation
/// \param tensors  that have rows
/// \param rows     where their rows go in it
/// \param further  likewise
template <class Backward>
void set_rows(
    Backward& op, const Views& tensors, const std::vector<kernels::Rows*>& rows,
    const std::vector<kernels::Further*>& further) {
  constexpr int kHeads = kRowDimensions - 1;
  const bool has_heads = op.heads != 1;
  const Layout layout = layout_of(tensors, Order::kept, has_heads ? kHeads : kRowDimensions);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    *rows[i] = layout.tensors[i];
    *further[i] = {layout.leaps[i], has_heads ? tensors[i]->region.stride[kHeads] : 0};
  }
  op.rows = static_cast<int>(layout.rows);
  op.inner = 1;
  if (layout.rows == 0) return;  // a dimension may be of any size then
  op.inner = static_cast<int>(layout.inner);
  op.period = static_cast<int>(layout.period);
}

/// Bytes of a workspace for a number of heads that have a weight, and of rows of each.
using BytesFor = std::size_t (*)(int rows, int hidden, int heads, Dtype dtype);

/// Enough for x with a weight of all rows and with one of each head.
std::size_t workspace_bytes_for(const View& x, BytesFor bytes_for);

/// The memory as a workspace of the pass over x that needs as many bytes as bytes_for() says.
/// \param memory     where it begins
/// \param bytes      that the caller says it has
/// \param x          on whose device it is
/// \param bytes_for  what the pass needs
View workspace_of(void* memory, std::size_t bytes, const View& x, BytesFor bytes_for);

}  // namespace rmsnorm::library
