// RMSNorm to MXFP8, naive: a warp a row. Its lanes are as many as the columns that share a scale.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "common/operations/rms_norm_fp8.hpp"

namespace {

using rmsnorm::Dtype;
using rmsnorm::RmsNormMxfp8;

constexpr int kLanes = rmsnorm::kScaleBlock;
static_assert(kLanes == 32, "a warp");
constexpr float kLargest = 448;  // of e4m3

/// Element i of a tensor.
__device__ float load(const void* from, Dtype dtype, std::int64_t i) {
  if (dtype == Dtype::fp32) return static_cast<const float*>(from)[i];
  if (dtype == Dtype::fp16) return __half2float(static_cast<const __half*>(from)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
}

/// Sum over a warp. Every lane gets it.
__device__ float warp_sum(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, distance);
  }
  return value;
}

/// The same of the largest value.
__device__ float warp_max(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  return value;
}

/// The norm of an element.
__device__ float norm(const RmsNormMxfp8& p, float rstd, std::int64_t row, int col) {
  const float factor =
      p.weight == nullptr ? 1 : load(p.weight, p.weight_dtype, col) + p.weight_bias;
  return load(p.x, p.dtype, row * p.hidden + col) * rstd * factor;
}

/// The exponent of the smallest power of two that is not less than this, with its bias.
__device__ int exponent_for(float least) {
  if (least <= 0x1p-127f) return 0;
  const int up = static_cast<int>((__float_as_uint(least) + 0x7fffff) >> 23);
  return min(up, 254);  // 255 is NaN
}

/// The power of two with an exponent.
__device__ float power_of(int exponent) {
  return __uint_as_float(exponent == 0 ? 0x400000 : exponent << 23);  // 2^-127 is subnormal
}

__global__ void rms_norm_mxfp8(RmsNormMxfp8 p) {
  const auto row = static_cast<std::int64_t>(blockIdx.x);  // rows * hidden can exceed 2^31
  const int lane = threadIdx.x;
  float sum = 0;
  for (int col = lane; col < p.hidden; col += kLanes) {
    const float x = load(p.x, p.dtype, row * p.hidden + col);
    sum += x * x;
  }
  const float rstd = rsqrtf(warp_sum(sum) / p.hidden + p.eps);
  const float limit = p.limit_or_scale[0];
  auto* const y = static_cast<__nv_fp8_e4m3*>(p.y) + row * p.hidden;

  const int blocks = p.hidden / kLanes;
  for (int block = 0; block < blocks; ++block) {
    const int col = block * kLanes + lane;
    const float value = norm(p, rstd, row, col);
    const float size = fmaxf(fabsf(value), 0);  // a NaN does not count
    const float largest = fminf(warp_max(size), limit);
    const int exponent = exponent_for(largest / kLargest);
    if (lane == 0) p.scale[row * blocks + block] = static_cast<std::uint8_t>(exponent);
    y[col] = __nv_fp8_e4m3(value / power_of(exponent));  // it saturates
  }
}

/// Why a problem is not supported, in a sentence. This kernel supports them all.
std::string unsupported(const RmsNormMxfp8&) {
  return "";
}

cudaError_t launch(const RmsNormMxfp8& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  rms_norm_mxfp8<<<p.rows, kLanes, 0, stream>>>(p);
  return cudaGetLastError();
}

/// What a row asks of global memory, in bytes: x twice, the weight, the limit, a sector, and y; a
/// scale that is stored is a sector, too.
rmsnorm::Traffic traffic(const RmsNormMxfp8& p) {
  constexpr int kSector = 32;
  const double x = static_cast<double>(bytes_of(p.dtype)) * p.hidden;
  const double weight =
      p.weight == nullptr ? 0 : static_cast<double>(bytes_of(p.weight_dtype)) * p.hidden;
  const double scales = kSector * (p.hidden / kLanes);
  return {.read = 2 * x + weight + kSector, .written = p.hidden + scales};
}

/// The most additions that a term goes through: a lane's own, then the shuffles'.
rmsnorm::SumDepth sum_depth(const RmsNormMxfp8& p) {
  return p.hidden / kLanes + 5;
}

const rmsnorm::Registration<RmsNormMxfp8> kernel{{
    .slug = "rms_norm_mxfp8",
    .title = "RMSNorm to MXFP8",
    .idea = "The norm of each row, and a power of two for each 32 columns",
    .regime = "prefill",
    .launch = launch,
    .unsupported = unsupported,
    .traffic = traffic,
    .sum_depth = sum_depth,
}};

}  // namespace
