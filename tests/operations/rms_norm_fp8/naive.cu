// RMSNorm to 8 bits, naive: one block a row, a tree for each sum and each largest number, and x is
// read anew whenever it is needed. All operations are one kernel.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "common/operations/rms_norm_fp8.hpp"

namespace {

using rmsnorm::Dtype;
using rmsnorm::kGroup;
using rmsnorm::Normed;
using rmsnorm::Rounding;
using rmsnorm::Scaling;

constexpr int kLevels = 7;              // of a tree, which halves the threads down to 1
constexpr int kThreads = 1 << kLevels;  // so it is a power of two: 128, a group

/// Element i of a tensor.
__device__ float load(const void* from, Dtype dtype, std::int64_t i) {
  if (dtype == Dtype::fp32) return static_cast<const float*>(from)[i];
  if (dtype == Dtype::fp16) return __half2float(static_cast<const __half*>(from)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
}

/// Stores a number in a type's nearest.
__device__ void store(void* to, Dtype dtype, std::int64_t i, float value) {
  if (dtype == Dtype::fp32) static_cast<float*>(to)[i] = value;
  if (dtype == Dtype::fp16) static_cast<__half*>(to)[i] = __float2half_rn(value);
  if (dtype == Dtype::bf16) static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16_rn(value);
}

/// A number as a type can store it.
__device__ float round_to(Dtype dtype, float value) {
  if (dtype == Dtype::fp32) return value;
  if (dtype == Dtype::fp16) return __half2float(__float2half_rn(value));
  return __bfloat162float(__float2bfloat16_rn(value));
}

/// Sum over the threads of a block. Every thread gets it.
__device__ float block_sum(float value, float* partial) {
  partial[threadIdx.x] = value;
  __syncthreads();  // every thread's value is in partial[]
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) partial[threadIdx.x] += partial[threadIdx.x + stride];
    __syncthreads();  // this level is done
  }
  const float sum = partial[0];
  __syncthreads();  // every thread has read it: partial[] may be used again
  return sum;
}

/// The same of the largest value.
__device__ float block_max(float value, float* partial) {
  partial[threadIdx.x] = value;
  __syncthreads();  // every thread's value is in partial[]
  for (int stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + stride]);
    }
    __syncthreads();  // this level is over
  }
  const float largest = partial[0];
  __syncthreads();  // every thread has it: partial[] may be used again
  return largest;
}

/// What is normed of an element: x, or the sum, as long as it is not stored.
template <class Op>
__device__ float number(const Op& p, std::int64_t i) {
  const float x = load(p.x, p.dtype, i);
  return Op::kNormed == Normed::sum ? x + load(p.residual, p.dtype, i) : x;
}

/// The norm of an element.
template <class Op>
__device__ float norm(const Op& p, float rstd, std::int64_t row, int col) {
  const float x = number(p, row * p.hidden + col);
  const float factor =
      p.weight == nullptr ? 1 : load(p.weight, p.weight_dtype, col) + p.weight_bias;
  const float value = x * rstd * factor;
  return Op::kRounding == Rounding::twice ? round_to(p.dtype, value) : value;
}

/// Columns that share a scale.
template <class Op>
__host__ __device__ int width_of(const Op& p) {
  return Op::kScaling == Scaling::group ? kGroup : p.hidden;
}

/// How many scales there are for a row.
template <class Op>
__host__ __device__ int scales_of(const Op& p) {
  return (p.hidden - 1) / width_of(p) + 1;
}

template <class Op>
__global__ void rms_norm_fp8(Op p) {
  using Code = std::conditional_t<Op::kType == Dtype::e4m3, __nv_fp8_e4m3, __nv_fp8_e5m2>;
  constexpr float kLargest = Op::kType == Dtype::e4m3 ? 448 : 57344;
  constexpr float kLeast = rmsnorm::least_scale(Op::kType);
  const auto row = static_cast<std::int64_t>(blockIdx.x);  // rows * hidden can exceed 2^31
  Code* const y = static_cast<Code*>(p.y) + row * p.hidden;

  __shared__ float partial[kThreads];
  float sum = 0;
  for (int col = threadIdx.x; col < p.hidden; col += kThreads) {
    const float x = number(p, row * p.hidden + col);
    sum += x * x;
  }
  const float rstd = rsqrtf(block_sum(sum, partial) / p.hidden + p.eps);

  for (int begin = 0; begin < p.hidden; begin += width_of(p)) {
    const int end = min(begin + width_of(p), p.hidden);
    float scale = p.limit_or_scale[0];
    if constexpr (Op::kScaling != Scaling::given) {
      float largest = 0;
      for (int col = begin + threadIdx.x; col < end; col += kThreads) {
        largest = fmaxf(largest, fabsf(norm(p, rstd, row, col)));
      }
      const float limit = scale;
      largest = fminf(block_max(largest, partial), limit);
      scale = fmaxf(largest / kLargest, kLeast);
      if (threadIdx.x == 0) p.scale[row * scales_of(p) + begin / width_of(p)] = scale;
    }
    for (int col = begin + threadIdx.x; col < end; col += kThreads) {
      y[col] = Code(norm(p, rstd, row, col) / scale);  // it saturates
      if constexpr (Op::kNormed == Normed::sum) {
        const std::int64_t i = row * p.hidden + col;
        store(p.residual, p.dtype, i, number(p, i));  // nobody needs what was there
      }
    }
  }
}

/// Why a problem is not supported, in a sentence. This kernel supports them all.
template <class Op>
std::string unsupported(const Op&) {
  return "";
}

template <class Op>
cudaError_t launch(const Op& p, cudaStream_t stream) {
  if (p.rows == 0) return cudaSuccess;  // a grid of no blocks is an error
  rms_norm_fp8<<<p.rows, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

/// What a row asks of global memory, in bytes: x and the weight once for each pass over them, the
/// limit or the scale once a warp, a sector each, and y; a scale that is stored is a sector, too.
/// The sum is computed anew, too, and once more to be stored.
template <class Op>
rmsnorm::Traffic traffic(const Op& p) {
  constexpr int kSector = 32;
  const bool chooses = Op::kScaling != Scaling::given;
  constexpr bool kAdds = Op::kNormed == Normed::sum;
  const double x = static_cast<double>(bytes_of(p.dtype)) * p.hidden;
  const double weight =
      p.weight == nullptr ? 0 : static_cast<double>(bytes_of(p.weight_dtype)) * p.hidden;
  const double scales = kSector * scales_of(p);
  return {
      .read =
          (2 + chooses + kAdds) * (1 + kAdds) * x + (1 + chooses) * weight + kThreads / 32 * scales,
      .written = p.hidden + chooses * scales + kAdds * x};
}

/// The most additions that a term goes through: a thread's own, then the tree's.
template <class Op>
rmsnorm::SumDepth sum_depth(const Op& p) {
  return (p.hidden - 1) / kThreads + 1 + kLevels;
}

/// The same kernel for another operation.
template <class Op>
struct Registered {
  rmsnorm::Registration<Op> kernel{{
      .slug = "rms_norm_fp8",
      .title = "RMSNorm to 8 bits",
      .idea = "The norm of each row, divided by a scale",
      .regime = "prefill",
      .launch = launch<Op>,
      .unsupported = unsupported<Op>,
      .traffic = traffic<Op>,
      .sum_depth = sum_depth<Op>,
  }};
};

#ifdef RMSNORM_ONE_OPERATION  // which shows the mistake of a mutant
const Registered<rmsnorm::RMSNORM_ONE_OPERATION> one;
#else
const Registered<rmsnorm::RmsNormE4m3> e4m3;
const Registered<rmsnorm::RmsNormE4m3Twice> e4m3_twice;
const Registered<rmsnorm::RmsNormE4m3Row> e4m3_row;
const Registered<rmsnorm::RmsNormE4m3RowTwice> e4m3_row_twice;
const Registered<rmsnorm::RmsNormE4m3Group> e4m3_group;
const Registered<rmsnorm::RmsNormE4m3GroupTwice> e4m3_group_twice;
const Registered<rmsnorm::RmsNormE5m2> e5m2;
const Registered<rmsnorm::RmsNormE5m2Twice> e5m2_twice;
const Registered<rmsnorm::RmsNormE5m2Row> e5m2_row;
const Registered<rmsnorm::RmsNormE5m2RowTwice> e5m2_row_twice;
const Registered<rmsnorm::RmsNormE5m2Group> e5m2_group;
const Registered<rmsnorm::RmsNormE5m2GroupTwice> e5m2_group_twice;
const Registered<rmsnorm::ResidualAddE4m3> sum_e4m3;
const Registered<rmsnorm::ResidualAddE4m3Twice> sum_e4m3_twice;
const Registered<rmsnorm::ResidualAddE4m3Row> sum_e4m3_row;
const Registered<rmsnorm::ResidualAddE4m3RowTwice> sum_e4m3_row_twice;
const Registered<rmsnorm::ResidualAddE4m3Group> sum_e4m3_group;
const Registered<rmsnorm::ResidualAddE4m3GroupTwice> sum_e4m3_group_twice;
#endif

}  // namespace
