#include "common/contract/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace rmsnorm {
namespace {

std::int64_t bytes_of(const TensorSpec& tensor, int rows, int hidden, const Types& types) {
  return static_cast<std::int64_t>(size_of(tensor, rows, hidden)) *
         bytes_of(dtype_of(tensor, types));
}

}  // namespace

int Operation::index_of(std::string_view tensor) const {
  const auto found = std::find_if(
      tensors.begin(), tensors.end(), [&](const TensorSpec& spec) { return spec.name == tensor; });
  if (found == tensors.end()) {
    throw std::logic_error(fmt::format("{} has no tensor {}", name, tensor));
  }
  return static_cast<int>(found - tensors.begin());
}

std::size_t size_of(const TensorSpec& tensor, int rows, int hidden) {
  const std::size_t of_rows = has_rows(tensor) ? rows : 1;
  if (tensor.extent == Extent::groups) return of_rows * ((hidden - 1) / kGroup + 1);
  return of_rows * (tensor.extent == Extent::matrix || tensor.extent == Extent::row ? hidden : 1);
}

Dtype dtype_of(const TensorSpec& tensor, const Types& types) {
  if (tensor.elements == Elements::fp32) return Dtype::fp32;
  if (tensor.elements == Elements::e4m3) return Dtype::e4m3;
  if (tensor.elements == Elements::e5m2) return Dtype::e5m2;
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

std::int64_t bytes_to_move(const Operation& operation, int rows, int hidden, const Types& types) {
  std::int64_t bytes = 0;
  for (const TensorSpec& tensor : operation.tensors) {
    if (tensor.extent != Extent::matrix) continue;
    const int crossings = is_read(tensor) + is_written(tensor);
    bytes += crossings * bytes_of(tensor, rows, hidden, types);
  }
  return bytes;
}

std::int64_t bytes_of_tensors(
    const Operation& operation, int rows, int hidden, const Types& types) {
  std::int64_t bytes = 0;
  for (const TensorSpec& tensor : operation.tensors) {
    if (is_there(tensor, types)) bytes += bytes_of(tensor, rows, hidden, types);
  }
  return bytes;
}

}  // namespace rmsnorm
