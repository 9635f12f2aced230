#pragma once
/// \file
/// RMSNorm to 8 bits, with scales; of x, or of a sum that takes a residual's place.

#include <cuda_runtime.h>

#include <cstdint>

#include "common/contract/dtype.hpp"
#include "library/kernels/rows.hpp"

namespace rmsnorm::kernels {

/// Which elements share a scale, and who chooses it.
enum class Scales {
  given,   ///< all; the caller
  row,     ///< a row's; the kernel, by the largest
  groups,  ///< those of kScaleGroup columns of a row, or of what is left at its end; likewise
  powers,  ///< those of as many columns as the operation says; likewise, a power of two, rounded up
};

constexpr int kScaleGroup = 128;  ///< columns
constexpr int kScaleBlock = 32;   ///< likewise

/// What it does. In every row: sum = x + residual, and the residual becomes sum, if there is one;
/// norm = sum / sqrt(eps + mean of sum^2) * (weight + weight_bias), and y = norm / scale. The sum
/// and norm are rounded once, each to the type of x where it is stored; y is made of the norm as it
/// is in fp32, or as it is stored. norm may be x; otherwise no two tensors share a byte, nor do two
/// rows of one that is written.
struct Fp8Norm {
  Rows x;                       ///< (outer, inner, hidden)  input
  Rows residual;                ///< (outer, inner, hidden)  input and output; data of null: none
  Rows norm;                    ///< (outer, inner, hidden)  output; data of null: unwanted
  Rows y;                       ///< (outer, inner, hidden)  output, of 8 bits
  Rows scale;                   ///< (outer, inner, groups)  output, fp32, or exponents of powers in
                                ///<      bytes; given: data of null. In tiles, a row lies where its
                                ///<      number is, in bytes
  std::int64_t group_stride;    ///< bytes from the scale of a group to the next one's
  const float* limit_or_scale;  ///< (1)  given: the scale; else the most that counts as the
                                ///<      largest, or null
  const void* weight;           ///< (hidden)  null: all ones
  std::int64_t weight_outer_stride, weight_inner_stride;  ///< bytes from a row's weight to the next
  std::int64_t rows;                                      ///< outer * inner; 0 or more
  std::int64_t inner;         ///< 1 or more; `rows` or more if outer is 1
  int hidden;                 ///< 1 to 2^30
  Dtype dtype;                ///< of x, the residual and norm
  Dtype weight_dtype;         ///< of the weight
  Dtype y_dtype;              ///< e4m3 or e5m2
  Scales scales;              ///< of y
  bool rounds_twice;          ///< y is made of the norm as it is stored
  int power_columns;          ///< that share a power: kScaleBlock or kScaleGroup
  std::uint8_t* tiles;        ///< where the powers begin, if they lie in tiles; else null
  std::int64_t tiled_rows;    ///< of all launches that have to be alike, in tiles
  float eps;                  ///< 0 or more
  float weight_bias;          ///< added to the weight; 0 without one
  std::int64_t step_columns;  ///< set in any distance, in elements, to rows of launches that have
                              ///< to be alike; or 0
};

/// Enqueues the operation on the stream of the current device, as residual_add.hpp's launch() does,
/// with the same limits.
cudaError_t launch(const Fp8Norm& op, cudaStream_t stream);

}  // namespace rmsnorm::kernels
