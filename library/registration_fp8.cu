// The library's 8 bits as implementations for the harness.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "common/operations/rms_norm_fp8.hpp"
#include "library/kernels/backward_plan.hpp"
#include "library/kernels/forward_plan.hpp"
#include "library/kernels/fp8.hpp"
#include "library/kernels/fp8_plan.hpp"
#include "library/registration.hpp"

namespace {

using namespace rmsnorm;
using kernels::divide_up;

static_assert(kernels::kScaleGroup == kGroup && kernels::kScaleBlock == kScaleBlock);

constexpr kernels::Scales scales_of(Scaling scaling) {
  return scaling == Scaling::given   ? kernels::Scales::given
         : scaling == Scaling::row   ? kernels::Scales::row
         : scaling == Scaling::group ? kernels::Scales::groups
                                     : kernels::Scales::powers;
}

/// Columns of a row that share a scale.
template <class Op>
int width_of(const Op& p) {
  return columns_of_scale(Op::kScaling, p.hidden);
}

/// Scales of a row.
template <class Op>
int scales_of_row(const Op& p) {
  return (p.hidden - 1) / width_of(p) + 1;
}

/// How a scale is stored that the kernel chooses.
template <class Op>
constexpr Dtype kOfScale = Op::kScaling == Scaling::block ? Dtype::e8m0 : Dtype::fp32;

template <class Op>
kernels::Fp8Norm fp8_of(const Op& p) {
  kernels::Fp8Norm op{};
  op.x = contiguous(p.x, p.hidden, p.dtype);
  if (p.residual != nullptr) op.residual = contiguous(p.residual, p.hidden, p.dtype);
  op.y = contiguous(p.y, p.hidden, Op::kType);
  if (p.scale != nullptr) op.scale = contiguous(p.scale, scales_of_row(p), kOfScale<Op>);
  op.group_stride = bytes_of(kOfScale<Op>);
  op.power_columns = width_of(p);
  op.limit_or_scale = p.limit_or_scale;
  op.weight = p.weight;
  op.rows = p.rows;
  op.inner = std::max(1, p.rows);
  op.hidden = p.hidden;
  op.dtype = p.dtype;
  op.weight_dtype = p.weight_dtype;
  op.y_dtype = Op::kType;
  op.scales = scales_of(Op::kScaling);
  op.rounds_twice = Op::kRounding == Rounding::twice;
  op.eps = p.eps;
  op.weight_bias = p.weight_bias;
  return op;
}

template <class Op>
cudaError_t launch_fp8(const Op& p, cudaStream_t stream) {
  return kernels::launch(fp8_of(p), stream);
}

kernels::ForwardShape shape_of_fp8(const kernels::Fp8Norm& op) {
  kernels::ForwardShape shape;
  shape_on_device(op, &shape);  // after an error, nothing will be launched
  return shape;
}

/// That of the forward launch, in whose order squares are added.
template <class Op>
int depth_of_fp8(const Op& p) {
  const kernels::Fp8Norm op = fp8_of(p);
  return depth_of_forward(p, plan_for(forward_of(op), shape_of_fp8(op)));
}

/// As a forward row's and, of one that neither registers nor a cluster hold, x and the weight once
/// more for what follows, and once more for the largest of the row. The limit or the scale is a
/// sector for each warp; the scales that a warp stores at a time are one. A vector of 32 bytes is
/// two loads, both of all sectors.
template <class Op>
Traffic traffic_of_fp8(const Op& p) {
  const kernels::Fp8Norm op = fp8_of(p);
  const kernels::ForwardPlan plan = plan_for(op, shape_of_fp8(op), kernels::has_clusters());
  constexpr int kSector = 32;
  const bool is_kept = plan.kind != kernels::Kind::mixed;
  const int columns = is_kept ? 16 / bytes_of(p.dtype) : 8;  // of a vector
  const auto row = [&](Dtype dtype) {
    const int bytes = bytes_of(dtype);
    return 1.0 * p.hidden * bytes * (columns * bytes == 32 ? 2 : 1);
  };
  const int largest = Op::kScaling == Scaling::row && !is_kept ? 1 : 0;
  const int weights = 1 + (Op::kScaling == Scaling::row && !is_kept ? 1 : 0);
  const double rows_of_warp = std::max(1.0, 32.0 / plan.threads);
  const double warps =
      plan.cluster * std::max(1.0, plan.threads / 32.0) / rows_of_warp;  // of a row
  const double weight = p.weight == nullptr ? 0 : row(p.weight_dtype) / rows_of_warp;
  // Of a warp's lanes, those at the begin of a group store its scale: a few bytes beside each
  // other, in one sector or, where they need not begin at a multiple of their number, at times in
  // two.
  double scales = Op::kScaling == Scaling::given ? 0 : 1 / rows_of_warp;
  const bool has_parts = Op::kScaling == Scaling::group || Op::kScaling == Scaling::block;
  if (has_parts && plan.threads >= width_of(p) / columns) {
    const int stored = 32 * columns / width_of(p) * bytes_of(kOfScale<Op>);
    const int apart = scales_of_row(p) * bytes_of(kOfScale<Op>) * static_cast<int>(rows_of_warp);
    const double sectors = 1 + (stored - std::gcd(apart, stored)) / double{kSector};
    const int lanes = std::min(32, plan.threads);
    scales *= static_cast<double>(divide_up(divide_up(p.hidden, columns), lanes)) * sectors;
  }
  constexpr bool kHasResidual = Op::kNormed == Normed::sum;
  const double x = row(p.dtype) * (kHasResidual ? 2 : 1);
  return {
      .read = (is_kept ? 1 : 2 + largest) * x + weights * weight + kSector * warps,
      .written = p.hidden + (kHasResidual ? row(p.dtype) : 0) + kSector * scales};
}

template <class Op>
struct RegisteredFp8 {
  Registration<Op> kernel{{
      .slug = "librmsnorm",
      .title = "librmsnorm, 8 bits",
      .idea = "The norm and its scales in one kernel, each byte once if registers hold it",
      .regime = "",
      .launch = launch_fp8<Op>,
      .traffic = traffic_of_fp8<Op>,
      .sum_depth = depth_of_fp8<Op>,
  }};
};

// Types, scalings, roundings and sums of which each is there: they are choices of one kernel.
const RegisteredFp8<RmsNormE4m3> e4m3;
const RegisteredFp8<RmsNormE4m3Row> e4m3_row;
const RegisteredFp8<RmsNormE4m3Group> e4m3_group;
const RegisteredFp8<RmsNormMxfp8> mxfp8;
const RegisteredFp8<RmsNormE5m2Row> e5m2_row;
const RegisteredFp8<ResidualAddE4m3Twice> sum_e4m3_twice;
const RegisteredFp8<ResidualAddE4m3Group> sum_e4m3_group;

}  // namespace
