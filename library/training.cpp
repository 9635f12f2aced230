#include "library/training.hpp"

#include <algorithm>

namespace rmsnorm::library {
namespace {

constexpr std::int64_t kMaxRows = std::int64_t{1} << 30;  // counted in 32 bits there
constexpr std::int64_t kMaxHeads = 65535;  // likewise, if they have a weight: a grid has no more
constexpr std::int64_t kMaxWeight = std::int64_t{1} << 30;  // likewise, elements of it
constexpr std::int64_t kWorkspaceAlignment = 256;

void check_heads(const View& weight) {
  const std::int64_t heads = heads_of(weight);
  require(
      heads <= kMaxHeads, RMSNORM_BAD_SHAPE, "{} has {} heads: the backward pass needs {} at most",
      weight.name, heads, kMaxHeads);
  require(
      heads * weight.hidden <= kMaxWeight, RMSNORM_BAD_SHAPE,
      "{} has {} elements: the backward pass needs {} at most", weight.name, heads * weight.hidden,
      kMaxWeight);
}

}  // namespace

View input_of(const DLTensor* tensor) {
  const View x = rows_of({"x", tensor});
  std::int64_t rows = x.region.rows() == 0 ? 0 : 1;
  for (const std::int64_t size : x.region.size) {
    require(
        rows == 0 || size <= kMaxRows / rows, RMSNORM_BAD_SHAPE,
        "x needs {} rows at most, and has more", kMaxRows);
    rows *= size;
  }
  return x;
}

TrainedWeight trained_weight(
    const DLTensor* weight, const DLTensor* dweight, const View& x, float weight_bias) {
  TrainedWeight trained{weight_or_none({"weight", weight}, x, weight_bias), {}, x.dtype, 1, 0};
  if (trained.weight) {
    check_heads(*trained.weight);
    trained.dtype = trained.weight->dtype;
    trained.heads = static_cast<int>(heads_of(*trained.weight));
    trained.head = trained.weight->region.stride[kRowDimensions - 1];
  }
  if (dweight == nullptr) return trained;
  trained.gradient = weight_of({"dweight", dweight}, x);
  if (trained.weight) check_shape(*trained.gradient, *trained.weight);
  if (trained.weight) check_dtype(*trained.gradient, *trained.weight);
  check_heads(*trained.gradient);
  check_heads_together(*trained.gradient);
  trained.dtype = trained.gradient->dtype;
  trained.heads = static_cast<int>(heads_of(*trained.gradient));
  return trained;
}

std::size_t workspace_bytes_for(const View& x, BytesFor bytes_for) {
  if (x.hidden == 0) return 0;
  const auto rows = static_cast<int>(x.region.rows()), hidden = static_cast<int>(x.hidden);
  const std::size_t bytes = bytes_for(rows, hidden, 1, x.dtype);
  const std::int64_t heads = x.region.size[kRowDimensions - 1];
  const bool may_differ =
      x.dimensions > 2 && 1 < heads && heads <= kMaxHeads && heads * x.hidden <= kMaxWeight;
  if (!may_differ) return bytes;
  const auto count = static_cast<int>(heads);
  return std::max(bytes, bytes_for(rows / count, hidden, count, x.dtype));
}

View workspace_of(void* memory, std::size_t bytes, const View& x, BytesFor bytes_for) {
  const std::size_t needed = workspace_bytes_for(x, bytes_for);
  require(
      bytes >= needed, RMSNORM_BAD_VALUE,
      "workspace_bytes is {}: x, with its shape and type, needs {}", bytes, needed);
  require(
      needed == 0 || memory != nullptr, RMSNORM_BAD_POINTER,
      "workspace is null: it needs to be memory of {} bytes", needed);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto begin = needed > 0 ? address_of("workspace", address, x.device) : 0;
  const auto size = static_cast<std::int64_t>(needed);
  require(
      begin % kWorkspaceAlignment == 0, RMSNORM_BAD_ALIGNMENT,
      "workspace begins at the address {:#x}: it needs a multiple of {}", begin,
      kWorkspaceAlignment);
  return {"workspace", Dtype::fp32, x.device, 1, size / 4, {begin, {1, 1, 1}, {0, 0, 0}, size}};
}

}  // namespace rmsnorm::library
