/// \file
/// The functions of rmsnorm.h, but those for norms with a gate.

#include "library/include/rmsnorm.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <vector>

#include "library/call.hpp"
#include "library/kernels/backward.hpp"
#include "library/kernels/forward.hpp"
#include "library/kernels/fp8.hpp"
#include "library/kernels/residual_add.hpp"
#include "library/periods.hpp"
#include "library/training.hpp"

namespace rmsnorm::library {
namespace {

/// The tensors of one norm.
struct Norm {
  View x;
  std::optional<View> weight;
  View y;
  std::optional<View> residual = {};
  std::optional<View> rstd = {};
};

/// Those of one to 8 bits.
struct Fp8Tensors {
  View x;
  std::optional<View> weight;
  View y;
  std::optional<View> residual = {}, norm = {}, given = {}, limit = {};
  std::optional<Scales> chosen = {};
};

using Norms = std::initializer_list<const Norm*>;

Norm norm_of(const Argument& x, const Argument& weight, const Argument& y, float weight_bias) {
  const View input = rows_of(x);
  const View output = output_like(y, input);
  return {input, weight_or_none(weight, input, weight_bias), output};
}

/// Checks all that the kernels have in common, and calls launch() on the tensors' device. Without
/// an rstd, each y may be its x.
template <class Launch>
void enqueue_with(Norms norms, float eps, const Launch& launch) {
  check_number("eps", eps, false);
  Views written, read;
  written.reserve(kMaxTensors);
  read.reserve(kMaxTensors);
  for (const Norm* norm : norms) {
    if (norm->rstd) written.push_back(&*norm->rstd);
    written.push_back(&norm->y);
    read.push_back(&norm->x);
  }
  for (const Norm* norm : norms) {
    if (norm->residual) written.push_back(&*norm->residual);
    if (norm->weight) read.push_back(&*norm->weight);
  }
  enqueue(written, read, (*norms.begin())->rstd ? 0 : norms.size(), std::ref(launch));
}

void enqueue_norms(Norms norms, float eps, float weight_bias, cudaStream_t stream) {
  enqueue_with(norms, eps, [&] {
    const View& x = (*norms.begin())->x;
    kernels::HeadsForward op(
        kernels::Forward{{}, static_cast<int>(x.hidden), x.dtype, x.dtype, eps, weight_bias});
    std::vector<Layout> layouts;
    layouts.reserve(norms.size());
    bool is_by_itself = false;  // each tensor: for its periods, or as one alone has a weight
    for (const Norm* norm : norms) {
      if (norm->x.region.is_empty()) continue;
      Views views{&norm->x, &norm->y};
      if (norm->weight) views.push_back(&*norm->weight);
      const Layout layout = layout_of(views, norm->rstd ? Order::kept : Order::free);
      const std::size_t i = layouts.size();
      op.weight_head[i] = norm->weight ? layout.tensors[2].inner_stride : 0;
      op.tensors[i] = {
          layout.tensors[0],
          layout.tensors[1],
          norm->weight ? data_of(*norm->weight) : nullptr,
          norm->rstd ? static_cast<float*>(data_of(*norm->rstd)) : nullptr,
          rows_of_launch(layout),
          layout.inner};
      if (norm->weight) op.weight_dtype = norm->weight->dtype;
      const bool is_like_first =
          (op.tensors[0].weight == nullptr) == (op.tensors[i].weight == nullptr);
      is_by_itself = is_by_itself || layout.period > 0 || !is_like_first;
      layouts.push_back(layout);
    }
    if (layouts.empty()) return cudaSuccess;
    if (!is_by_itself) return kernels::launch(op, stream);
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      kernels::HeadsForward one = op;
      one.tensors[0] = op.tensors[i];
      one.weight_head[0] = op.weight_head[i];
      one.tensors[1] = {};
      one.weight_head[1] = 0;
      one.step_bits = step_bits_of(layouts[i], 2);
      kernels::Tensor& tensor = one.tensors[0];
      const cudaError_t error =
          launch_periods(layouts[i], {&tensor.x, &tensor.y}, tensor.rows, [&] {
            const cudaError_t launched = kernels::launch(one, stream);
            if (tensor.rstd != nullptr) tensor.rstd += tensor.rows;
            return launched;
          });
      if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}

void enqueue_residual_add(const Norm& norm, float eps, float weight_bias, cudaStream_t stream) {
  const View& x = norm.x;
  enqueue_with({&norm}, eps, [&] {
    if (x.region.is_empty()) return cudaSuccess;
    Views views{&x, &*norm.residual, &norm.y};
    if (norm.weight) views.push_back(&*norm.weight);
    const Layout layout = layout_of(views, Order::free);
    kernels::ResidualAdd op{};
    op.x = layout.tensors[0];
    op.residual = layout.tensors[1];
    op.y = layout.tensors[2];
    op.rows = rows_of_launch(layout);
    op.step_bits = step_bits_of(layout, 3);
    op.inner = layout.inner;
    op.hidden = static_cast<int>(x.hidden);
    op.dtype = op.weight_dtype = x.dtype;
    op.residual_dtype = norm.residual->dtype;
    if (norm.weight) {
      op.weight = data_of(*norm.weight);
      op.weight_dtype = norm.weight->dtype;
      op.weight_inner_stride = layout.tensors[3].inner_stride;
    }
    op.eps = eps;
    op.weight_bias = weight_bias;
    return launch_periods(
        layout, {&op.x, &op.residual, &op.y}, op.rows, [&] { return kernels::launch(op, stream); });
  });
}

/// Calls the kernels for 8 bits. Every pointer in op to a row is set here.
void enqueue_fp8(const Fp8Tensors& t, kernels::Fp8Norm op, cudaStream_t stream) {
  Views views{&t.x, &t.y}, written, read{&t.x};
  std::vector<kernels::Rows*> rows{&op.x, &op.y};
  views.reserve(kMaxTensors);
  const auto add = [&](const std::optional<View>& view, kernels::Rows* to) {
    if (!view) return;
    views.push_back(&*view);
    rows.push_back(to);
    written.push_back(&*view);
  };
  add(t.norm, &op.norm);  // the first, as it may be x
  add(t.residual, &op.residual);
  const std::size_t of_elements = views.size();
  written.push_back(&t.y);
  if (t.chosen) {
    views.push_back(&t.chosen->rows);
    rows.push_back(&op.scale);
    written.push_back(&t.chosen->memory);
    op.group_stride = t.chosen->group_bytes;
  }
  for (const auto* const input : {&t.weight, &t.given, &t.limit}) {
    if (*input) read.push_back(&**input);
  }
  if (t.weight) views.push_back(&*t.weight);
  enqueue(written, read, t.norm ? 1 : 0, [&] {
    if (t.x.region.is_empty()) return cudaSuccess;
    const Layout layout = layout_of(views, Order::free);
    for (std::size_t i = 0; i < rows.size(); ++i) *rows[i] = layout.tensors[i];
    for (std::size_t i = 0; layout.period > 0 && i < of_elements; ++i) {
      op.step_columns |= step_of(layout, i) / bytes_of(views[i]->dtype);
    }
    if (t.weight) {
      op.weight = data_of(*t.weight);
      op.weight_inner_stride = layout.tensors[rows.size()].inner_stride;
      op.weight_outer_stride = layout.tensors[rows.size()].outer_stride;
    }
    op.rows = rows_of_launch(layout);
    op.inner = layout.inner;
    return launch_periods(layout, rows, op.rows, [&] { return kernels::launch(op, stream); });
  });
}

}  // namespace
}  // namespace rmsnorm::library

using namespace rmsnorm;
using namespace rmsnorm::library;

int rmsnorm_version(void) {
  return RMSNORM_VERSION_MAJOR * 10000 + RMSNORM_VERSION_MINOR * 100 + RMSNORM_VERSION_PATCH;
}

rmsnorm_status rmsnorm_forward(
    const DLTensor* x, const DLTensor* weight, const DLTensor* y, float eps, float weight_bias,
    CUstream_st* stream) {
  return status_of([&] {
    const Norm norm = norm_of({"x", x}, {"weight", weight}, {"y", y}, weight_bias);
    enqueue_norms({&norm}, eps, weight_bias, stream);
  });
}

rmsnorm_status rmsnorm_forward_pair(
    const DLTensor* q, const DLTensor* q_weight, const DLTensor* q_out, const DLTensor* k,
    const DLTensor* k_weight, const DLTensor* k_out, float eps, float weight_bias,
    CUstream_st* stream) {
  return status_of([&] {
    const Norm norms[] = {
        norm_of({"q", q}, {"q_weight", q_weight}, {"q_out", q_out}, weight_bias),
        norm_of({"k", k}, {"k_weight", k_weight}, {"k_out", k_out}, weight_bias)};
    const View& first = norms[0].x;
    const View& second = norms[1].x;
    check_dtype(second, first);
    check_device(second, first);
    require(
        second.hidden == first.hidden, RMSNORM_BAD_SHAPE,
        "k has {} columns: it needs those of q, {}", second.hidden, first.hidden);
    if (norms[0].weight && norms[1].weight) check_dtype(*norms[1].weight, *norms[0].weight);
    enqueue_norms({&norms[0], &norms[1]}, eps, weight_bias, stream);
  });
}

rmsnorm_status rmsnorm_residual_add(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    float eps, float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    Norm norm = norm_of({"x", x}, {"weight", weight}, {"y", y}, weight_bias);
    norm.residual = output_like({"residual", residual}, norm.x, Elements::numbers);
    enqueue_residual_add(norm, eps, weight_bias, stream);
  });
}

rmsnorm_status rmsnorm_forward_fp8(
    const DLTensor* x, const DLTensor* residual, const DLTensor* weight, const DLTensor* y,
    const DLTensor* scale, const DLTensor* limit, const DLTensor* norm, rmsnorm_scaling scaling,
    rmsnorm_rounding rounding, float eps, float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    const bool is_given = scaling == RMSNORM_SCALE_GIVEN;
    const bool is_row = scaling == RMSNORM_SCALE_ROW, is_block = scaling == RMSNORM_SCALE_BLOCK;
    require(
        is_given || is_row || is_block || scaling == RMSNORM_SCALE_GROUP, RMSNORM_BAD_VALUE,
        "scaling is {}: it needs to be a value of rmsnorm_scaling", static_cast<int>(scaling));
    check_rounding(rounding);
    check_number("eps", eps, false);
    const View input = rows_of({"x", x});
    Fp8Tensors tensors{
        input, weight_or_none({"weight", weight}, input, weight_bias),
        output_like({"y", y}, input, Elements::fp8)};
    if (residual != nullptr) tensors.residual = output_like({"residual", residual}, input);
    if (norm != nullptr) tensors.norm = output_like({"norm", norm}, input);
    if (is_given) {
      tensors.given = number_of({"scale", scale}, input);
      require(
          limit == nullptr, RMSNORM_BAD_VALUE,
          "limit is a tensor, and the scale is given: it needs to be null");
    } else {
      const std::int64_t columns = is_block ? kernels::kScaleBlock : kernels::kScaleGroup;
      require(
          !is_block || input.hidden % columns == 0, RMSNORM_BAD_SHAPE,
          "x has {} columns: with a scale for {} of them, it needs a multiple of that",
          input.hidden, columns);
      const std::int64_t groups = is_row ? 1 : (input.hidden + columns - 1) / columns;
      const Argument argument{"scale", scale};
      const bool are_powers = !is_row && is_e8m0(argument);
      require(
          !is_block || are_powers, RMSNORM_BAD_DTYPE,
          "scale is not of bytes: scales of blocks need to be float8_e8m0fnu or uint8");
      tensors.chosen = is_block && scale->ndim == 1
                           ? tiles_of(argument, input, groups)
                           : scales_of(argument, input, groups, are_powers);
      if (limit != nullptr) tensors.limit = number_of({"limit", limit}, input);
    }

    kernels::Fp8Norm op{};
    const auto& number = is_given ? tensors.given : tensors.limit;
    if (number) op.limit_or_scale = static_cast<const float*>(data_of(*number));
    op.hidden = static_cast<int>(input.hidden);
    op.dtype = input.dtype;
    op.weight_dtype = tensors.weight ? tensors.weight->dtype : input.dtype;
    op.y_dtype = tensors.y.dtype;
    op.scales = is_given                  ? kernels::Scales::given
                : is_row                  ? kernels::Scales::row
                : tensors.chosen->is_e8m0 ? kernels::Scales::powers
                                          : kernels::Scales::groups;
    if (tensors.chosen) {
      op.power_columns = is_block ? kernels::kScaleBlock : kernels::kScaleGroup;
      op.tiled_rows = input.region.rows();
      if (tensors.chosen->are_tiled)
        op.tiles = static_cast<std::uint8_t*>(data_of(tensors.chosen->memory));
    }
    op.rounds_twice = rounding == RMSNORM_ROUND_TWICE;
    op.eps = eps;
    op.weight_bias = weight_bias;
    enqueue_fp8(tensors, op, stream);
  });
}

rmsnorm_status rmsnorm_forward_rstd(
    const DLTensor* x, const DLTensor* weight, const DLTensor* y, const DLTensor* rstd, float eps,
    float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    input_of(x);
    Norm norm = norm_of({"x", x}, {"weight", weight}, {"y", y}, weight_bias);
    norm.rstd = rstd_of({"rstd", rstd}, norm.x);
    enqueue_norms({&norm}, eps, weight_bias, stream);
  });
}

rmsnorm_status rmsnorm_backward_workspace_bytes(const DLTensor* x, size_t* bytes) {
  return status_of([&] {
    require(
        bytes != nullptr, RMSNORM_BAD_POINTER,
        "bytes is null: it needs to be where to write a number");
    *bytes = workspace_bytes_for(input_of(x), kernels::workspace_bytes);
  });
}

rmsnorm_status rmsnorm_backward(
    const DLTensor* dy, const DLTensor* x, const DLTensor* weight, const DLTensor* rstd,
    const DLTensor* dx, const DLTensor* dweight, void* workspace, size_t workspace_bytes,
    float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    const View input = input_of(x);
    const View d_output = input_like({"dy", dy}, input, true);
    const View rstds = rstd_of({"rstd", rstd}, input);
    const View d_input = output_like({"dx", dx}, input);
    const View memory = workspace_of(workspace, workspace_bytes, input, kernels::workspace_bytes);
    const TrainedWeight trained = trained_weight(weight, dweight, input, weight_bias);
    Views read{&input, &d_output, &rstds}, written;
    if (trained.weight) read.push_back(&*trained.weight);
    if (trained.gradient) written.push_back(&*trained.gradient);

    kernels::NestedBackward op(kernels::Backward{});
    op.rstd = static_cast<const float*>(data_of(rstds));
    op.workspace = workspace;
    op.hidden = static_cast<int>(input.hidden);
    op.dtype = input.dtype;
    op.weight_bias = weight_bias;
    set_weight(op, trained);
    set_rows(
        op, {&input, &d_output, &d_input}, {&op.x, &op.dy, &op.dx},
        {&op.x_further, &op.dy_further, &op.dx_further});
    op.dy_is_expanded = d_output.is_expanded;
    written.insert(written.end(), {&memory, &d_input});
    enqueue(written, read, 0, [&] {
      const bool is_nothing = input.hidden == 0 || op.heads == 0;
      return is_nothing ? cudaSuccess : kernels::launch(op, stream);
    });
  });
}
