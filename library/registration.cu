// The library as an implementation for the harness: the same kernels, on contiguous tensors, and
// what they promise. Not a part of the library itself. Its 8 bits are in registration_fp8.cu.
#include <algorithm>
#include <cstdint>

#include "common/operations/backward.hpp"
#include "common/operations/residual_add.hpp"
#include "common/operations/rms_norm.hpp"
#include "library/forward_in_shape.hpp"
#include "library/kernels/backward.hpp"
#include "library/kernels/backward_plan.hpp"
#include "library/kernels/forward.hpp"
#include "library/kernels/forward_plan.hpp"
#include "library/kernels/properties.hpp"
#include "library/kernels/residual_add.hpp"
#include "library/kernels/residual_add_plan.hpp"
#include "library/registration.hpp"

namespace {

using namespace rmsnorm;
using kernels::divide_up;

// Forward.

kernels::Forward forward_of(const TypedRmsNorm& p) {
  const kernels::Tensor tensor{
      contiguous(p.x, p.hidden, p.dtype),
      contiguous(p.y, p.hidden, p.dtype),
      p.weight,
      nullptr,
      p.rows,
      p.rows};
  return {{tensor, {}}, p.hidden, p.dtype, p.weight_dtype, p.eps, p.weight_bias};
}

cudaError_t launch_forward(const TypedRmsNorm& p, cudaStream_t stream) {
  return kernels::launch(forward_of(p), stream);
}

kernels::ForwardPlan forward_plan_of(const TypedRmsNorm& p) {
  kernels::ForwardShape shape;
  shape_on_device(forward_of(p), &shape);  // after an error, nothing will be launched
  return plan_for(forward_of(p), shape);
}

/// What a row of vectors costs: x and y once, twice what of x neither registers nor shared memory
/// hold, and the weight once for all rows that one warp holds. A vector of 32 bytes of the weight
/// is two loads, both of all sectors.
Traffic traffic_of_forward(const TypedRmsNorm& p) {
  const kernels::ForwardPlan plan = forward_plan_of(p);
  const double x = 1.0 * bytes_of(p.dtype) * p.hidden;
  const int held_vectors = plan.is_fallback ? 0 : plan.vectors + plan.staged;
  const double held = 16.0 * plan.cluster * plan.threads * held_vectors;
  const int loads = bytes_of(p.weight_dtype) / bytes_of(p.dtype);
  const double weight = p.weight == nullptr ? 0 : 1.0 * bytes_of(p.weight_dtype) * p.hidden * loads;
  const double rows_of_warp = std::max(1.0, 32.0 / plan.threads);
  return {.read = x + std::max(0.0, x - held) + weight / rows_of_warp, .written = x};
}

const Registration<TypedRmsNorm> forward{{
    .slug = "librmsnorm",
    .title = "librmsnorm",
    .idea = "Rows of any length, stride and address, each with the kernel that suits it best",
    .regime = "",
    .launch = launch_forward,
    .traffic = traffic_of_forward,
    .sum_depth = [](const TypedRmsNorm& p) { return depth_of_forward(p, forward_plan_of(p)); },
}};

// Residual add.

kernels::ResidualAdd residual_add_of(const rmsnorm::ResidualAdd& p) {
  return {
      contiguous(p.x, p.hidden, p.dtype),
      contiguous(p.residual, p.hidden, p.dtype),
      contiguous(p.y, p.hidden, p.dtype),
      p.weight,
      p.rows,
      std::max(1, p.rows),
      p.hidden,
      p.dtype,
      p.weight_dtype,
      p.eps,
      p.weight_bias,
      p.dtype};
}

kernels::ResidualAddPlan residual_add_plan_of(const rmsnorm::ResidualAdd& p) {
  return plan_for(residual_add_of(p), kernels::has_clusters());
}

cudaError_t launch_residual_add(const rmsnorm::ResidualAdd& p, cudaStream_t stream) {
  return kernels::launch(residual_add_of(p), stream);
}

/// x and the residual once, or twice if neither a block nor a cluster holds them; the weight once,
/// of which a vector of 32 bytes is two loads, both of all sectors. The residual and y are written.
Traffic traffic_of_residual_add(const rmsnorm::ResidualAdd& p) {
  const double row = bytes_of(p.dtype) * static_cast<double>(p.hidden);
  const double factor = p.weight == nullptr ? 0 : bytes_of(p.weight_dtype);  // bytes of one
  const kernels::ResidualAddPlan plan = residual_add_plan_of(p);
  const bool is_wide = factor > bytes_of(p.dtype);
  const int loads = is_wide && (plan.vectors > 0 || factor * plan.step == 32) ? 2 : 1;
  const bool are_held =
      is_shared(plan) || plan.vectors > 0 || (plan.columns > 0 && !plan.is_fallback);
  const int times = are_held ? 1 : 2;
  const double rows_of_warp = std::max(1.0, 32.0 / plan.threads);  // which share what it loads
  return {.read = times * 2 * row + factor * p.hidden * loads / rows_of_warp, .written = 2 * row};
}

/// A thread's columns one by one, the additions of a warp's shuffles, of the warps' sums, and of
/// their shuffles; and one for 1 / hidden.
int depth_of_residual_add(const rmsnorm::ResidualAdd& p) {
  const kernels::ResidualAddPlan plan = residual_add_plan_of(p);
  if (plan.vectors > 0) return depth_of_forward(p, plan);
  const int threads = plan.cluster * plan.threads;
  const std::int64_t vectors = divide_up(p.hidden / plan.width, threads);  // of a thread
  const int of_lane = (threads - 1) / (32 * 32);  // additions of warps' sums
  return std::min(p.hidden, plan.width * static_cast<int>(vectors)) + 5 + of_lane + 5 + 1;
}

const Registration<rmsnorm::ResidualAdd> residual_add{{
    .slug = "librmsnorm",
    .title = "librmsnorm, residual add",
    .idea =
        "The sum with the residual and its norm in one kernel, each byte once if the SMs hold it",
    .regime = "",
    .launch = launch_residual_add,
    .traffic = traffic_of_residual_add,
    .sum_depth = depth_of_residual_add,
}};

// Backward.

kernels::Backward backward_of(const rmsnorm::Backward& p) {
  return {
      contiguous(p.x, p.hidden, p.dtype),
      contiguous(p.dy, p.hidden, p.dtype),
      contiguous(p.dx, p.hidden, p.dtype),
      p.rstd,
      p.weight,
      p.dweight,
      p.workspace,
      p.rows,
      std::max(1, p.rows),
      p.hidden,
      p.dtype,
      p.weight_dtype,
      p.weight_bias};
}

cudaError_t launch_backward(const rmsnorm::Backward& p, cudaStream_t stream) {
  return kernels::launch(backward_of(p), stream);
}

std::size_t workspace_bytes(const rmsnorm::Backward& p) {
  return kernels::workspace_bytes(p.rows, p.hidden, 1, p.dtype);
}

/// A row costs x, dy and dx; a block costs the weight, and its partial sums of dweight, which are
/// written, and read once more.
Traffic traffic_of_backward(const rmsnorm::Backward& p) {
  const kernels::BackwardShape shape = shape_of(backward_of(p), kernels::has_clusters());
  const double row = 1.0 * p.hidden * bytes_of(p.dtype);
  // Of a vector of 8, the factors and the partial sums are two vectors of fp32: a request for one
  // touches the sectors of both.
  const double halves = shape.size == 8 ? 2 : 1;
  double weight = 0;
  if (p.weight != nullptr) {
    weight = p.hidden * bytes_of(p.weight_dtype) * (p.weight_dtype == Dtype::fp32 ? halves : 1);
  }
  const double rstd = shape.threads * shape.parts;  // a sector a warp
  const double warps_with_all = shape.threads > 32 ? shape.places : kernels::kMaxBlock / 32;
  const double blocks_of_row = static_cast<double>(shape.blocks) / std::max(1, p.rows);
  Traffic result{.read = 2 * row + rstd + blocks_of_row * warps_with_all * weight, .written = row};
  if (shape.parts > 1 && !shape.is_cluster) {
    result.read += 2 * row + kernels::kMaxBlock + weight + rstd;  // for the mean, and the mean
    result.written += 32;
  }
  if (p.dweight != nullptr) {
    const double sums = blocks_of_row * p.hidden * 4;
    result.read += sums;
    result.written += sums * (shape.places > 1 ? 1 : halves);
    result.written += 1.0 * p.hidden * bytes_of(p.weight_dtype) / std::max(1, p.rows);
  }
  return result;
}

/// A thread's own additions, then those of two warps' shuffles; and one for 1 / hidden, which is
/// rounded before it is a factor.
int row_depth_of_backward(const rmsnorm::Backward& p) {
  const kernels::BackwardShape shape = shape_of(backward_of(p), kernels::has_clusters());
  if (shape.is_cluster) {  // a lane of the second warp begins with up to 4 of the warps' sums
    return kernels::kPartVectors * shape.size + 5 + 4 + 5 + 1;
  }
  const auto threads = shape.parts > 1 ? kernels::kMaxBlock : shape.threads;
  return static_cast<int>(divide_up(p.hidden / shape.size, threads)) * shape.size + 5 + 5 + 1;
}

/// Those of a thread, of the rows that a block has at a time, of every 32nd block, and of 32 warps.
int column_depth_of_backward(const rmsnorm::Backward& p) {
  const kernels::BackwardShape shape = shape_of(backward_of(p), kernels::has_clusters());
  return shape.turns + shape.places + static_cast<int>(divide_up(shape.blocks, 32)) + 32;
}

SumDepth depth_of_backward(const rmsnorm::Backward& p) {
  return {row_depth_of_backward(p), column_depth_of_backward(p)};
}

const Registration<rmsnorm::Backward> backward{{
    .slug = "librmsnorm",
    .title = "librmsnorm, backward",
    .idea = "Both gradients in one pass over x and dy, and the same bits in every run",
    .regime = "backward",
    .launch = launch_backward,
    .traffic = traffic_of_backward,
    .sum_depth = depth_of_backward,
    .workspace_bytes = workspace_bytes,
}};

}  // namespace

Implementation rmsnorm::forward_in_shape(const kernels::ForwardShape& shape) {
  const auto view = Description<TypedRmsNorm>::view;
  return {
      .slug = "librmsnorm",
      .title = "librmsnorm",
      .idea = "",
      .regime = "",
      .memory = Memory::device,
      .operation = &operation_of<RmsNorm>(),
      .is_typed = true,
      .launch =
          [=](const Problem& p, cudaStream_t stream) {
            return launch_in_shape(forward_of(view(p)), shape, stream);
          },
      .unsupported = [](const Problem&) { return std::string(); },
      .traffic = nullptr,
      .sum_depth = [=](const Problem& p) -> SumDepth {
        return depth_of_forward(view(p), plan_for(forward_of(view(p)), shape));
      },
      .workspace_bytes = [](const Problem&) { return std::size_t{0}; }};
}
