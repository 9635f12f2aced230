// Two kernels in one file, of two operations: what ./rmsnorm check takes.
#include "common/operations/residual_add.hpp"
#include "common/operations/rms_norm.hpp"

namespace {

constexpr int kLanes = 32;

/// One warp a row. Without a residual, it is x that is normed.
__global__ void norm(
    const float* x, float* residual, const float* weight, float* y, int hidden, float eps) {
  const auto row = static_cast<std::int64_t>(blockIdx.x) * hidden;
  const float* normed = residual == nullptr ? x + row : residual + row;
  float sum = 0;
  for (int col = threadIdx.x; col < hidden; col += kLanes) {
    float value = x[row + col];
    if (residual != nullptr) {
      value += residual[row + col];
      residual[row + col] = value;
    }
    sum += value * value;
  }
  for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  const float rstd = rsqrtf(sum / hidden + eps);
  for (int col = threadIdx.x; col < hidden; col += kLanes) {
    y[row + col] = normed[col] * rstd * weight[col];
  }
}

template <class View>
int sum_depth(const View& p) {
  return p.hidden / kLanes + 6;
}

cudaError_t launch_norm(const rmsnorm::RmsNorm& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  norm<<<p.rows, kLanes, 0, stream>>>(p.x, nullptr, p.weight, p.y, p.hidden, p.eps);
  return cudaGetLastError();
}

cudaError_t launch_sum(const rmsnorm::ResidualAdd& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;
  norm<<<p.rows, kLanes, 0, stream>>>(
      static_cast<const float*>(p.x), static_cast<float*>(p.residual),
      static_cast<const float*>(p.weight), static_cast<float*>(p.y), p.hidden, p.eps);
  return cudaGetLastError();
}

std::string unsupported_sum(const rmsnorm::ResidualAdd& p) {
  const bool is_fp32 = p.dtype == rmsnorm::Dtype::fp32 && p.weight != nullptr && p.weight_bias == 0;
  return is_fp32 ? "" : "96_sum_alone knows fp32 alone, a weight and no bias";
}

rmsnorm::Traffic traffic_of_norm(const rmsnorm::RmsNorm& p) {
  return {.read = 12.0 * p.hidden, .written = 4.0 * p.hidden};
}

rmsnorm::Traffic traffic_of_sum(const rmsnorm::ResidualAdd& p) {
  return {.read = 16.0 * p.hidden, .written = 8.0 * p.hidden};
}

const rmsnorm::Registration<rmsnorm::RmsNorm> norm_alone{{
    .slug = "95_norm_alone",
    .title = "Norm",
    .idea = "A warp a row",
    .regime = "batch",
    .launch = launch_norm,
    .traffic = traffic_of_norm,
    .sum_depth = sum_depth<rmsnorm::RmsNorm>,
}};

const rmsnorm::Registration<rmsnorm::ResidualAdd> sum_alone{{
    .slug = "96_sum_alone",
    .title = "Sum",
    .idea = "A warp a row, of a sum",
    .regime = "batch",
    .launch = launch_sum,
    .unsupported = unsupported_sum,
    .traffic = traffic_of_sum,
    .sum_depth = sum_depth<rmsnorm::ResidualAdd>,
}};

}  // namespace
