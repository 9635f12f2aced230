/// \file
/// The functions of rmsnorm.h for inference.

#include "library/include/rmsnorm.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <optional>
#include <vector>

#include "library/call.hpp"
#include "library/kernels/forward.hpp"
#include "library/kernels/residual_add.hpp"

namespace rmsnorm::library {
namespace {

/// The tensors of one norm.
struct Norm {
  View x;
  std::optional<View> weight;
  View y;
  std::optional<View> residual = {};
};

struct Argument {
  const char* name;
  const DLTensor* tensor;
};

Norm norm_of(const Argument& x, const Argument& weight, const Argument& y, float weight_bias) {
  Norm norm{rows_of(x.name, x.tensor), {}, rows_of(y.name, y.tensor)};
  check_same(norm.y, norm.x);
  norm.weight = weight_or_none(weight.name, weight.tensor, norm.x, weight_bias);
  check_rows_apart(norm.y);
  return norm;
}

void check_overlaps(const std::vector<Norm>& norms) {
  for (const Norm& norm : norms) {
    if (norm.residual) {
      check_apart(*norm.residual, norm.x);
      check_apart(norm.y, *norm.residual);
      if (norm.weight) check_apart(*norm.residual, *norm.weight);
    }
    for (const Norm& other : norms) {
      const bool in_place = &other == &norm && norm.y.region == norm.x.region;
      if (!in_place) check_apart(norm.y, other.x);
      if (other.weight) check_apart(norm.y, *other.weight);
      if (&other != &norm) check_apart(norm.y, other.y);
    }
  }
}

kernels::Tensor tensor_of(const Norm& norm) {
  const Layout layout = layout_of({norm.x, norm.y});
  void* const weight = norm.weight ? data_of(*norm.weight) : nullptr;
  return {layout.tensors[0], layout.tensors[1], weight, nullptr, layout.rows, layout.inner};
}

/// Checks all that the kernels have in common, and calls launch() on the tensors' device.
template <class Launch>
void enqueue(const std::vector<Norm>& norms, float eps, const Launch& launch) {
  check_number("eps", eps, false);
  check_overlaps(norms);
  std::vector<View> tensors;
  for (const Norm& norm : norms) {
    tensors.insert(tensors.end(), {norm.x, norm.y});
    if (norm.weight) tensors.push_back(*norm.weight);
    if (norm.residual) tensors.push_back(*norm.residual);
  }
  launch_on(tensors, launch);
}

void enqueue_norms(
    const std::vector<Norm>& norms, float eps, float weight_bias, cudaStream_t stream) {
  enqueue(norms, eps, [&] {
    const View& x = norms.front().x;
    kernels::Forward op{{}, static_cast<int>(x.hidden), x.dtype, x.dtype, eps, weight_bias};
    int count = 0;
    for (const Norm& norm : norms) {
      if (norm.x.region.is_empty()) continue;
      op.tensors[count++] = tensor_of(norm);
      if (norm.weight) op.weight_dtype = norm.weight->dtype;
    }
    return count > 0 ? kernels::launch(op, stream) : cudaSuccess;
  });
}

void enqueue_residual_add(const Norm& norm, float eps, float weight_bias, cudaStream_t stream) {
  const View& x = norm.x;
  if (x.hidden > kernels::kMaxSummedColumns) {
    throw Refusal{
        RMSNORM_BAD_SHAPE, fmt::format(
                               "{} has {} columns: with a residual it needs {} at most", x.name,
                               x.hidden, kernels::kMaxSummedColumns)};
  }
  enqueue({norm}, eps, [&] {
    if (x.region.is_empty()) return cudaSuccess;
    const Layout layout = layout_of({x, *norm.residual, norm.y});
    kernels::ResidualAdd op{};
    op.x = layout.tensors[0];
    op.residual = layout.tensors[1];
    op.y = layout.tensors[2];
    op.rows = layout.rows;
    op.inner = layout.inner;
    op.hidden = static_cast<int>(x.hidden);
    op.dtype = op.weight_dtype = x.dtype;
    if (norm.weight) {
      op.weight = data_of(*norm.weight);
      op.weight_dtype = norm.weight->dtype;
    }
    op.eps = eps;
    op.weight_bias = weight_bias;
    return kernels::launch(op, stream);
  });
}

}  // namespace
}  // namespace rmsnorm::library

using namespace rmsnorm::library;

int rmsnorm_version(void) {
  return RMSNORM_VERSION_MAJOR * 10000 + RMSNORM_VERSION_MINOR * 100 + RMSNORM_VERSION_PATCH;
}

rmsnorm_status rmsnorm_forward(
    const DLTensor* x, const DLTensor* weight, const DLTensor* y, float eps, float weight_bias,
    CUstream_st* stream) {
  return status_of([&] {
    const Norm norm = norm_of({"x", x}, {"weight", weight}, {"y", y}, weight_bias);
    enqueue_norms({norm}, eps, weight_bias, stream);
  });
}

rmsnorm_status rmsnorm_forward_pair(
    const DLTensor* q, const DLTensor* q_weight, const DLTensor* q_out, const DLTensor* k,
    const DLTensor* k_weight, const DLTensor* k_out, float eps, float weight_bias,
    CUstream_st* stream) {
  return status_of([&] {
    const std::vector<Norm> norms{
        norm_of({"q", q}, {"q_weight", q_weight}, {"q_out", q_out}, weight_bias),
        norm_of({"k", k}, {"k_weight", k_weight}, {"k_out", k_out}, weight_bias)};
    const View& first = norms[0].x;
    const View& second = norms[1].x;
    check_dtype(second, first);
    check_device(second, first);
    check_columns(second, first);
    if (norms[0].weight && norms[1].weight) check_dtype(*norms[1].weight, *norms[0].weight);
    enqueue_norms(norms, eps, weight_bias, stream);
  });
}

rmsnorm_status rmsnorm_residual_add(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    float eps, float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    Norm norm = norm_of({"x", x}, {"weight", weight}, {"y", y}, weight_bias);
    norm.residual = rows_of("residual", residual);
    check_same(*norm.residual, norm.x);
    check_rows_apart(*norm.residual);
    enqueue_residual_add(norm, eps, weight_bias, stream);
  });
}
