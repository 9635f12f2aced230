/// \file
/// The functions of rmsnorm.h for training.

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "library/call.hpp"
#include "library/kernels/backward.hpp"
#include "library/kernels/forward.hpp"

namespace rmsnorm::library {
namespace {

constexpr std::int64_t kMaxRows = std::int64_t{1} << 30;  // the kernels count them in 32 bits
constexpr std::int64_t kWorkspaceAlignment = 256;

/// The tensor as the x of a pass.
View input_of(const DLTensor* tensor) {
  const View x = rows_of("x", tensor);
  const auto& size = x.region.size;
  if (size[0] > 0 && size[1] > kMaxRows / size[0]) {
    throw Refusal{
        RMSNORM_BAD_SHAPE, fmt::format("x needs {} rows at most, and has more", kMaxRows)};
  }
  return x;
}

View same_as(const char* name, const DLTensor* tensor, const View& x) {
  const View view = rows_of(name, tensor);
  check_same(view, x);
  return view;
}

View output_as(const char* name, const DLTensor* tensor, const View& x) {
  const View view = same_as(name, tensor, x);
  check_rows_apart(view);
  return view;
}

std::size_t workspace_bytes_for(const View& x) {
  const auto rows = static_cast<int>(x.region.size[0] * x.region.size[1]);
  return x.hidden == 0 ? 0 : kernels::workspace_bytes(rows, static_cast<int>(x.hidden), x.dtype);
}

View workspace_of(void* memory, std::size_t bytes, const View& x) {
  const std::size_t needed = workspace_bytes_for(x);
  if (bytes < needed) {
    throw Refusal{
        RMSNORM_BAD_VALUE,
        fmt::format("workspace_bytes is {}: x, with its shape and type, needs {}", bytes, needed)};
  }
  if (needed > 0 && memory == nullptr) {
    throw Refusal{
        RMSNORM_BAD_POINTER,
        fmt::format("workspace is null: it needs to be memory of {} bytes", needed)};
  }
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto begin = needed > 0 ? address_of("workspace", address, x.device) : 0;
  const auto size = static_cast<std::int64_t>(needed);
  if (begin % kWorkspaceAlignment != 0) {
    throw Refusal{
        RMSNORM_BAD_ALIGNMENT, fmt::format(
                                   "workspace begins at the address {:#x}: it needs a multiple "
                                   "of {}",
                                   begin, kWorkspaceAlignment)};
  }
  return {"workspace", Dtype::fp32, x.device, 1, size / 4, {begin, {1, 1}, {0, 0}, size}};
}

/// Checks all that concerns several tensors, and calls launch() on their device.
template <class Launch>
void enqueue(
    const std::vector<View>& written, const std::vector<View>& read, const Launch& launch) {
  for (auto output = written.begin(); output != written.end(); ++output) {
    for (const View& input : read) check_apart(*output, input);
    for (auto other = written.begin(); other != output; ++other) check_apart(*output, *other);
  }
  std::vector<View> tensors = read;
  tensors.insert(tensors.end(), written.begin(), written.end());
  launch_on(tensors, launch);
}

}  // namespace
}  // namespace rmsnorm::library

using namespace rmsnorm;
using namespace rmsnorm::library;

rmsnorm_status rmsnorm_forward_rstd(
    const DLTensor* x, const DLTensor* weight, const DLTensor* y, const DLTensor* rstd, float eps,
    float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    const View input = input_of(x);
    const View output = output_as("y", y, input);
    const View rstds = rstd_of("rstd", rstd, input);
    check_number("eps", eps, false);
    std::vector<View> read{input};
    const auto factors = weight_or_none("weight", weight, input, weight_bias);
    if (factors) read.push_back(*factors);
    enqueue({output, rstds}, read, [&] {
      if (input.region.is_empty()) return cudaSuccess;
      const Layout layout = layout_of({input, output});
      kernels::Forward op{{},         static_cast<int>(input.hidden), input.dtype, input.dtype, eps,
                          weight_bias};
      op.tensors[0] = {layout.tensors[0], layout.tensors[1],
                       nullptr,           static_cast<float*>(data_of(rstds)),
                       layout.rows,       layout.inner};
      if (factors) {
        op.tensors[0].weight = data_of(*factors);
        op.weight_dtype = factors->dtype;
      }
      return kernels::launch(op, stream);
    });
  });
}

rmsnorm_status rmsnorm_backward_workspace_bytes(const DLTensor* x, size_t* bytes) {
  return status_of([&] {
    if (bytes == nullptr) {
      throw Refusal{RMSNORM_BAD_POINTER, "bytes is null: it needs to be where to write a number"};
    }
    *bytes = workspace_bytes_for(input_of(x));
  });
}

rmsnorm_status rmsnorm_backward(
    const DLTensor* dy, const DLTensor* x, const DLTensor* weight, const DLTensor* rstd,
    const DLTensor* dx, const DLTensor* dweight, void* workspace, size_t workspace_bytes,
    float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    const View input = input_of(x);
    const View d_output = same_as("dy", dy, input);
    const View rstds = rstd_of("rstd", rstd, input);
    const View d_input = output_as("dx", dx, input);
    const View memory = workspace_of(workspace, workspace_bytes, input);
    std::vector<View> read{input, d_output, rstds};
    std::vector<View> written{d_input, memory};
    const auto factors = weight_or_none("weight", weight, input, weight_bias);

    const Layout layout = layout_of({input, d_output, d_input});
    kernels::Backward op{};
    op.x = layout.tensors[0];
    op.dy = layout.tensors[1];
    op.dx = layout.tensors[2];
    op.rstd = static_cast<const float*>(data_of(rstds));
    op.workspace = workspace;
    op.rows = static_cast<int>(layout.rows);
    op.inner = static_cast<int>(layout.inner);
    op.hidden = static_cast<int>(input.hidden);
    op.dtype = op.weight_dtype = input.dtype;
    op.weight_bias = weight_bias;
    if (factors) {
      read.push_back(*factors);
      op.weight = data_of(*factors);
      op.weight_dtype = factors->dtype;
    }
    if (dweight != nullptr) {
      written.push_back(weight_of("dweight", dweight, input));
      if (factors) check_dtype(written.back(), *factors);
      op.weight_dtype = written.back().dtype;
      op.dweight = data_of(written.back());
    }
    enqueue(written, read, [&] {
      return input.hidden == 0 ? cudaSuccess : kernels::launch(op, stream);
    });
  });
}
