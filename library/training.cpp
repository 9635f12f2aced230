/// \file
/// The functions of rmsnorm.h for training.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "lessons/13_backward/backward.hpp"
#include "library/call.hpp"

namespace rmsnorm::library {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30;  // the kernels count them in 32 bits
constexpr std::int64_t kWorkspaceAlignment = 256;

/// The tensor, if a kernel for contiguous rows can have it.
View contiguous_of(const char* name, const DLTensor* tensor) {
  const View view = rows_of(name, tensor);
  const auto& size = view.region.size;
  if (size[0] > 0 && size[1] > kMostRows / size[0]) {
    throw Refusal{
        RMSNORM_BAD_SHAPE, fmt::format("{} needs {} rows at most, and has more", name, kMostRows)};
  }
  check_contiguous(view);
  return view;
}

View contiguous_as(const char* name, const DLTensor* tensor, const View& x) {
  const View view = rows_of(name, tensor);
  check_same(view, x);
  check_contiguous(view);
  return view;
}

/// What both passes are told of x and the weight.
template <class Problem>
Problem problem_of(const View& x, const std::optional<View>& weight, float weight_bias) {
  Problem problem;
  problem.x = data_of(x);
  problem.rows = static_cast<int>(x.region.size[0] * x.region.size[1]);
  problem.hidden = static_cast<int>(x.hidden);
  problem.dtype = problem.weight_dtype = x.dtype;
  if (weight) {
    problem.weight = data_of(*weight);
    problem.weight_dtype = weight->dtype;
  }
  problem.weight_bias = weight_bias;
  return problem;
}

/// Bytes for tensors of this shape and type, at any addresses: they decide the number of blocks.
std::size_t workspace_bytes_for(const View& x) {
  if (x.hidden == 0) return 0;
  auto problem = problem_of<BackwardProblem>(x, {}, 0);
  problem.x = nullptr;
  const std::size_t at_multiples_of_16 = backward::workspace_bytes(problem);
  problem.x = reinterpret_cast<const void*>(std::intptr_t{1});
  return std::max(at_multiples_of_16, backward::workspace_bytes(problem));
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
    const View input = contiguous_of("x", x);
    const View output = contiguous_as("y", y, input);
    const View rstds = rstd_of("rstd", rstd, input);
    check_number("eps", eps, false);
    std::vector<View> read{input};
    const auto factors = weight_or_none("weight", weight, input, weight_bias);
    if (factors) read.push_back(*factors);

    auto problem = problem_of<TypedProblem>(input, factors, weight_bias);
    problem.y = data_of(output);
    problem.eps = eps;
    enqueue({output, rstds}, read, [&] {
      if (input.region.is_empty()) return cudaSuccess;
      return backward::forward(problem, static_cast<float*>(data_of(rstds)), stream);
    });
  });
}

rmsnorm_status rmsnorm_backward_workspace_bytes(const DLTensor* x, size_t* bytes) {
  return status_of([&] {
    if (bytes == nullptr) {
      throw Refusal{RMSNORM_BAD_POINTER, "bytes is null: it needs to be where to write a number"};
    }
    *bytes = workspace_bytes_for(contiguous_of("x", x));
  });
}

rmsnorm_status rmsnorm_backward(
    const DLTensor* dy, const DLTensor* x, const DLTensor* weight, const DLTensor* rstd,
    const DLTensor* dx, const DLTensor* dweight, void* workspace, size_t workspace_bytes,
    float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    const View input = contiguous_of("x", x);
    const View d_output = contiguous_as("dy", dy, input);
    const View rstds = rstd_of("rstd", rstd, input);
    const View d_input = contiguous_as("dx", dx, input);
    const View memory = workspace_of(workspace, workspace_bytes, input);
    std::vector<View> read{input, d_output, rstds};
    std::vector<View> written{d_input, memory};
    const auto factors = weight_or_none("weight", weight, input, weight_bias);
    if (factors) read.push_back(*factors);

    auto problem = problem_of<BackwardProblem>(input, factors, weight_bias);
    problem.dy = data_of(d_output);
    problem.rstd = static_cast<const float*>(data_of(rstds));
    problem.dx = data_of(d_input);
    problem.workspace = workspace;
    if (dweight != nullptr) {
      written.push_back(weight_of("dweight", dweight, input));
      if (factors) check_dtype(written.back(), *factors);
      problem.weight_dtype = written.back().dtype;
      problem.dweight = data_of(written.back());
    }
    enqueue(written, read, [&] {
      return input.hidden == 0 ? cudaSuccess : backward::backward(problem, stream);
    });
  });
}
