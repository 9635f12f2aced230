#pragma once
/// \file
/// RMSNorm of the sum of what several ranks have, and of a residual.

#include "common/operations/residual_add.hpp"

namespace rmsnorm {

/// The most ranks.
inline constexpr int kMostRanks = 8;

/// One sum over ranks, a residual add and its RMSNorm to do. In a model that is spread over several
/// GPUs, ranks, each has a part of every number, and all need the norm of the whole; arithmetic is
/// fp32's:
///
///     sum[row][col] = x[0][row][col] + x[1][row][col] + ... + residual[row][col]
///     residual[row][col] = sum[row][col]
///     y[row][col] = sum[row][col] / sqrt(eps + mean over col of sum[row][col]^2)
///                   * (weight[col] + weight_bias)
///
/// The sum is of that order, from left to right, so that all ranks get the same bits; so does every
/// launch. What is stored is rounded once: y and the residual, but not the sums that are normed.
/// The tensors are contiguous and row-major, and no two overlap. Their addresses are multiples of
/// their elements' size, and need not be of more.
struct SumOfRanks {
  const void* x[kMostRanks];  ///< of each rank (rows, hidden), of type dtype; null: there is none
  void* residual;             ///< (rows, hidden)  input and output, of type dtype
  const void* weight;         ///< (hidden)        of type weight_dtype; null: all are 1
  void* y;                    ///< (rows, hidden)  output, of type dtype
  int ranks;                  ///< 1 to kMostRanks
  int rows;                   ///< 0 or more; rows * hidden may exceed 2^31
  int hidden;                 ///< 1 to 2^30
  float eps;                  ///< 0 or more
  float weight_bias;          ///< 1 in models that store the weight less 1; 0 without weight
  Dtype dtype;                ///< of x, y and the residual
  Dtype weight_dtype;         ///< fp32, or that of x
};

template <>
struct Description<SumOfRanks> : DescriptionOfSums<Description<SumOfRanks>> {
  using Of = SumOfRanks;
  static constexpr const char* kName = "sum_of_ranks";
  static constexpr bool kSameBits = true;
  static constexpr SizeSpec kSizes[] = {{"ranks", kMostRanks, {2, 3, 8}}};
  static constexpr Side kRanks = {"rank", side::length_of<0>, /*is_apart=*/true};
  static constexpr TensorSpec kTensors[] = {
      {"x", Role::input, {kRanks, side::rows, side::hidden}, Elements::like_x},
      {"residual", Role::in_place, {side::rows, side::hidden}, Elements::like_x, 0x4e51d},
      {"weight", Role::input, {side::hidden}, Elements::like_weight},
      {"y", Role::output, {side::rows, side::hidden}, Elements::like_x},
  };

  static SumOfRanks view(const Problem& p) {
    SumOfRanks view{};
    view.ranks = p.more[0];
    for (int rank = 0; rank < view.ranks; ++rank) view.x[rank] = p.piece(kX, rank);
    view.residual = p.tensors[kResidual];
    view.weight = p.tensors[kWeight];
    view.y = p.tensors[kY];
    view.rows = p.rows;
    view.hidden = p.hidden;
    view.eps = p.eps;
    view.weight_bias = p.weight_bias;
    view.dtype = p.dtype;
    view.weight_dtype = p.weight_dtype;
    return view;
  }

  /// As an fp32 number: one rounding for each addition, which the reference makes, too.
  __host__ __device__ static float sum_of(const Problem& p, std::int64_t i) {
    float sum = 0;
    for (int rank = 0; rank < p.more[0]; ++rank) sum += value_at(p.piece(kX, rank), p.dtype, i);
    return sum + p.like_x(kResidual, i);
  }
};

}  // namespace rmsnorm
