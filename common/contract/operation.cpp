#include "common/contract/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace rmsnorm {
namespace {

std::int64_t bytes_of(const TensorSpec& tensor, const Sizes& sizes, const Types& types) {
  return static_cast<std::int64_t>(size_of(tensor, sizes)) * bytes_of(dtype_of(tensor, types));
}

}  // namespace

int Operation::index_of(std::string_view tensor) const {
  const auto found = std::ranges::find(tensors, tensor, &TensorSpec::name);
  if (found == tensors.end()) {
    throw std::logic_error(fmt::format("{} has no tensor {}", name, tensor));
  }
  return static_cast<int>(found - tensors.begin());
}

std::size_t size_of(const TensorSpec& tensor, const Sizes& sizes) {
  std::int64_t elements = 1;
  for (const Side& side : tensor.sides) elements *= side.length(sizes);
  return static_cast<std::size_t>(elements);
}

int pieces_of(const TensorSpec& tensor, const Sizes& sizes) {
  return is_apart(tensor) ? static_cast<int>(tensor.sides.begin()->length(sizes)) : 1;
}

Dtype dtype_of(const TensorSpec& tensor, const Types& types) {
  if (tensor.elements == Elements::fp32) return Dtype::fp32;
  if (tensor.elements == Elements::e4m3) return Dtype::e4m3;
  if (tensor.elements == Elements::e5m2) return Dtype::e5m2;
  if (tensor.elements == Elements::e8m0) return Dtype::e8m0;
  if (tensor.elements == Elements::int32) return Dtype::int32;
  if (tensor.elements == Elements::like_x) return types.dtype;
  return types.weight.value_or(types.dtype);
}

bool is_there(const TensorSpec& tensor, const Types& types) {
  return tensor.elements != Elements::like_weight || types.weight;
}

Types types_of(const Problem& p) {
  Types types{.dtype = p.dtype, .weight = p.weight_dtype, .weight_bias = p.weight_bias};
  if (!p.has_weight) types.weight.reset();
  return types;
}

Mismatch mismatch_at(const TensorSpec& tensor, const Sizes& sizes, std::int64_t index) {
  Mismatch found{.tensor = tensor.name, .row = -1, .col = 0, .index = index};
  std::vector<std::string> beside;
  for (const Side* side = tensor.sides.end(); side != tensor.sides.begin();) {
    const std::int64_t length = (--side)->length(sizes);
    const std::int64_t place = index % length;
    index /= length;
    if (*side == side::rows) {
      found.row = place;
    } else if (*side == side::hidden) {
      found.col = place;
    } else if (*side == side::groups || *side == side::blocks) {
      found.col = place * columns_apart(tensor);
    } else {
      beside.insert(beside.begin(), fmt::format("{} {}", side->one, place));
    }
  }
  found.beside = fmt::format("{}", fmt::join(beside, ", "));
  return found;
}

int ranks_of(const Operation& operation, const Sizes& sizes) {
  for (const TensorSpec& tensor : operation.tensors) {
    if (is_of_ranks(tensor)) return pieces_of(tensor, sizes);
  }
  return 1;
}

std::int64_t lines_of(const Operation& operation, const Sizes& sizes) {
  std::int64_t most = 0;
  for (const TensorSpec& tensor : operation.tensors) {
    if (!is_matrix(tensor)) continue;
    most = std::max(most, static_cast<std::int64_t>(size_of(tensor, sizes)) / sizes.hidden);
  }
  return most;
}

int lines_of_row(const Operation& operation, Sizes sizes) {
  sizes.rows = 1;
  std::size_t most = 1;
  for (const TensorSpec& tensor : operation.tensors) {
    if (!is_matrix(tensor)) continue;
    most = std::max(most, size_of(tensor, sizes) / pieces_of(tensor, sizes) / sizes.hidden);
  }
  return static_cast<int>(most);
}

std::int64_t bytes_to_move(const Operation& operation, const Sizes& sizes, const Types& types) {
  if (operation.bytes_to_move != nullptr) return operation.bytes_to_move(sizes, types);
  std::int64_t bytes = 0;
  for (const TensorSpec& tensor : operation.tensors) {
    if (!is_matrix(tensor)) continue;
    const int crossings = is_read(tensor) + is_written(tensor);
    bytes += crossings * bytes_of(tensor, sizes, types);
  }
  return bytes;
}

std::int64_t bytes_of_tensors(const Operation& operation, const Sizes& sizes, const Types& types) {
  std::int64_t bytes = 0;
  for (const TensorSpec& tensor : operation.tensors) {
    if (is_there(tensor, types)) bytes += bytes_of(tensor, sizes, types);
  }
  return bytes;
}

}  // namespace rmsnorm
