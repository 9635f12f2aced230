/// \file
/// The functions of rmsnorm.h for norms with a gate.

#include "library/kernels/gated.hpp"

#include <cuda_runtime.h>

#include <optional>
#include <vector>

#include "library/call.hpp"
#include "library/include/rmsnorm.h"
#include "library/periods.hpp"
#include "library/training.hpp"

namespace rmsnorm::library {
namespace {

void check_gate(rmsnorm_gate gate) {
  require(
      gate == RMSNORM_GATE_LAST || gate == RMSNORM_GATE_FIRST, RMSNORM_BAD_VALUE,
      "gate is {}: it needs to be a value of rmsnorm_gate", static_cast<int>(gate));
}

/// The kernels know no other types of a weight.
void check_weight_dtype(const std::optional<View>& weight, const View& x) {
  if (weight && weight->dtype != Dtype::fp32) check_dtype(*weight, x);
}

std::size_t bytes_for(int rows, int hidden, int heads, Dtype) {
  return kernels::gated_workspace_bytes(rows, hidden, heads);
}

/// The x of the backward pass.
View trained_input(const DLTensor* tensor) {
  constexpr int kMost = kernels::GatedBackward::kMostColumns;
  const View x = input_of(tensor);
  require(
      x.hidden <= kMost, RMSNORM_BAD_SHAPE,
      "x has {} columns: the backward pass of a gated norm needs {} at most", x.hidden, kMost);
  return x;
}

}  // namespace
}  // namespace rmsnorm::library

using namespace rmsnorm;
using namespace rmsnorm::library;

rmsnorm_status rmsnorm_forward_gated(
    const DLTensor* x, const DLTensor* z, const DLTensor* weight, const DLTensor* y,
    rmsnorm_gate gate, rmsnorm_rounding rounding, float eps, float weight_bias,
    CUstream_st* stream) {
  return status_of([&] {
    check_gate(gate);
    check_rounding(rounding);
    check_number("eps", eps, false);
    const View input = rows_of({"x", x});
    const View gates = input_like({"z", z}, input);
    const View output = output_like({"y", y}, input);
    const auto factors = weight_or_none({"weight", weight}, input, weight_bias);
    check_weight_dtype(factors, input);
    Views read{&input, &gates};
    if (factors) read.push_back(&*factors);
    enqueue({&output}, read, 1, [&] {
      if (input.region.is_empty()) return cudaSuccess;
      Views views{&input, &gates, &output};
      if (factors) views.push_back(&*factors);
      const Layout layout = layout_of(views, Order::free);
      kernels::Gated op{};
      op.x = layout.tensors[0];
      op.z = layout.tensors[1];
      op.y = layout.tensors[2];
      op.rows = rows_of_launch(layout);
      op.step_bits = step_bits_of(layout, 3);
      op.inner = layout.inner;
      op.hidden = static_cast<int>(input.hidden);
      op.dtype = op.weight_dtype = input.dtype;
      if (factors) {
        op.weight = data_of(*factors);
        op.weight_dtype = factors->dtype;
        op.weight_outer_stride = layout.tensors[3].outer_stride;
        op.weight_inner_stride = layout.tensors[3].inner_stride;
      }
      op.gates_first = gate == RMSNORM_GATE_FIRST;
      op.rounds_twice = rounding == RMSNORM_ROUND_TWICE;
      op.eps = eps;
      op.weight_bias = weight_bias;
      return launch_periods(
          layout, {&op.x, &op.z, &op.y}, op.rows, [&] { return kernels::launch(op, stream); });
    });
  });
}

rmsnorm_status rmsnorm_backward_gated_workspace_bytes(const DLTensor* x, size_t* bytes) {
  return status_of([&] {
    require(
        bytes != nullptr, RMSNORM_BAD_POINTER,
        "bytes is null: it needs to be where to write a number");
    *bytes = workspace_bytes_for(trained_input(x), bytes_for);
  });
}

rmsnorm_status rmsnorm_backward_gated(
    const DLTensor* dy, const DLTensor* x, const DLTensor* z, const DLTensor* weight,
    const DLTensor* dx, const DLTensor* dz, const DLTensor* dweight, void* workspace,
    size_t workspace_bytes, rmsnorm_gate gate, float eps, float weight_bias, CUstream_st* stream) {
  return status_of([&] {
    check_gate(gate);
    check_number("eps", eps, false);
    const View input = trained_input(x);
    const View gates = input_like({"z", z}, input), d_output = input_like({"dy", dy}, input);
    const View d_input = output_like({"dx", dx}, input), d_gates = output_like({"dz", dz}, input);
    const View memory = workspace_of(workspace, workspace_bytes, input, bytes_for);
    const TrainedWeight trained = trained_weight(weight, dweight, input, weight_bias);
    check_weight_dtype(trained.weight, input);
    check_weight_dtype(trained.gradient, input);
    Views read{&input, &gates, &d_output}, written{&d_input, &d_gates, &memory};
    if (trained.weight) read.push_back(&*trained.weight);
    if (trained.gradient) written.push_back(&*trained.gradient);

    kernels::GatedBackward op{};
    set_weight(op, trained);
    std::vector<kernels::Rows*> rows;
    std::vector<kernels::Further*> further;
    for (int i = 0; i < kernels::GatedBackward::kTensors; ++i) {
      rows.push_back(&op.tensors[i]);
      further.push_back(&op.further[i]);
    }
    set_rows(op, {&input, &gates, &d_output, &d_input, &d_gates}, rows, further);  // in its order
    op.workspace = static_cast<float*>(workspace);
    op.hidden = static_cast<int>(input.hidden);
    op.dtype = input.dtype;
    op.gates_first = gate == RMSNORM_GATE_FIRST;
    op.eps = eps;
    op.weight_bias = weight_bias;
    enqueue(written, read, 0, [&] {
      const bool is_nothing = input.hidden == 0 || op.heads == 0;
      return is_nothing ? cudaSuccess : kernels::launch(op, stream);
    });
  });
}
