#pragma once
/// \file
/// The sum over ranks, a residual add and RMSNorm, layer after layer.

#include "common/operations/residual_add.hpp"

namespace rmsnorm {

/// The most ranks.
inline constexpr int kMostRanks = 8;

/// What one layer after the other of a model does that is spread over several GPUs, the ranks: each
/// has a part of x, and all need the norm of the whole. For each layer, on every rank; arithmetic
/// is fp32's:
///
///     sum = 0 + x[0][row][layer][col] + x[1][row][layer][col] + ...   in this order, over all
///                                                                     ranks; then rounded to the
///                                                                     type of x
///     value = sum + residual[rank][row][col]
///     residual[rank][row][col] = value, rounded
///     y[rank][row][layer][col] = value / sqrt(eps + mean over col of value^2)
///                                * (weight[col] + weight_bias)
///
/// The order and the roundings are fixed: every rank has the same bits, in every launch, however
/// the sum has been made.
///
/// All ranks are blocks of one grid, and blockIdx.y is the rank. A rank's x, residual and y are its
/// own. Its workspace is for all: other ranks may load from it and store to it. The tensors are
/// contiguous and row-major, and no two overlap. Their addresses are multiples of their elements'
/// size, and need not be of more; those of workspaces are multiples of 256.
struct AllReduce {
  /// What belongs to one rank.
  struct Rank {
    const void* x;    ///< (rows, layers, hidden)  its part, of type dtype
    void* residual;   ///< (rows, hidden)          input and output, of type dtype
    void* y;          ///< (rows, layers, hidden)  output, of type dtype
    void* workspace;  ///< as many bytes as Lesson::workspace_bytes says
  };
  Rank rank[kMostRanks];  ///< those that there are
  const void* weight;     ///< (hidden)  of type weight_dtype, the same for all; null: all are 1
  int ranks;              ///< 1 to kMostRanks
  int layers;             ///< 1 or more
  int rows;               ///< 0 or more; rows * layers * hidden may exceed 2^31
  int hidden;             ///< 1 to 2^30
  float eps;              ///< 0 or more
  float weight_bias;      ///< 1 in models that store the weight less 1; 0 without weight
  Dtype dtype;            ///< of x, y and the residual
  Dtype weight_dtype;     ///< fp32, or that of x
};

template <>
struct Description<AllReduce> : CommonDescription {
  using Of = AllReduce;
  static constexpr const char* kName = "all_reduce_residual_add";
  static constexpr bool kSameBits = true;
  static constexpr bool kIsTyped = true;

  enum { kRanks, kLayers };  // sizes
  static constexpr SizeSpec kSizes[] = {
      {"ranks", kMostRanks, {2, 3, 8}}, {"layers", 1 << 16, {3, 1, 4}}};
  static constexpr Side kOfRank = {"rank", side::length_of<kRanks>, /*is_apart=*/true};
  static constexpr Side kLayer = {"layer", side::length_of<kLayers>};

  enum { kX, kResidual, kWeight, kY };
  static constexpr TensorSpec kTensors[] = {
      {"x", Role::input, {kOfRank, side::rows, kLayer, side::hidden}, Elements::like_x},
      {"residual", Role::in_place, {kOfRank, side::rows, side::hidden}, Elements::like_x, 0x4e51d},
      {"weight", Role::input, {side::hidden}, Elements::like_weight},
      {"y", Role::output, {kOfRank, side::rows, kLayer, side::hidden}, Elements::like_x},
  };

  static AllReduce view(const Problem& p) {
    AllReduce view{};
    view.ranks = p.more[kRanks];
    for (int rank = 0; rank < view.ranks; ++rank) {
      view.rank[rank] = {
          p.piece(kX, rank), p.piece(kResidual, rank), p.piece(kY, rank), p.workspace_of(rank)};
    }
    view.weight = p.tensors[kWeight];
    view.layers = p.more[kLayers];
    view.rows = p.rows;
    view.hidden = p.hidden;
    view.eps = p.eps;
    view.weight_bias = p.weight_bias;
    view.dtype = p.dtype;
    view.weight_dtype = p.weight_dtype;
    return view;
  }

  /// What a rank norms in one layer, as an fp32 number, with the roundings of all layers up to it.
  __host__ __device__ static float value(
      const Problem& p, int rank, std::int64_t row, int layer, std::int64_t col) {
    float residual = value_at(p.piece(kResidual, rank), p.dtype, row * p.hidden + col);
    for (int i = 0;; ++i) {
      const std::int64_t at = (row * p.more[kLayers] + i) * p.hidden + col;
      float sum = 0;
      for (int r = 0; r < p.more[kRanks]; ++r) sum += value_at(p.piece(kX, r), p.dtype, at);
      const float value = rounded(p.dtype, sum) + residual;
      if (i == layer) return value;
      residual = rounded(p.dtype, value);
    }
  }

  /// A line is a row of one layer of one rank.
  struct OfY : Description<RmsNorm>::OfY {
    static constexpr int kTensor = kY;
    static std::int64_t lines(const Problem& p) {
      return std::int64_t{p.rows} * p.more[kLayers] * p.more[kRanks];
    }
    __host__ __device__ static std::int64_t index(
        const Problem& p, std::int64_t line, std::int64_t col) {
      return line * p.hidden + col;
    }
    __host__ __device__ static float value(const Problem& p, std::int64_t line, std::int64_t col) {
      const int layers = p.more[kLayers];
      const std::int64_t row = line / layers;
      return Description::value(
          p, static_cast<int>(row / p.rows), row % p.rows, static_cast<int>(line % layers), col);
    }
    __host__ __device__ static Sum term(const Problem& p, std::int64_t line, std::int64_t col) {
      const double x = value(p, line, col);
      return {x * x};
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t line, std::int64_t col, double bound) {
      return rms_norm_element(value(p, line, col), sum.squares, p.factor(kWeight, col), bound, p);
    }
  };

  /// A line is a row of one rank.
  struct OfResidual : Description<ResidualAdd>::OfResidual {
    static constexpr int kTensor = kResidual;
    static std::int64_t lines(const Problem& p) { return std::int64_t{p.rows} * p.more[kRanks]; }
    __host__ __device__ static std::int64_t index(
        const Problem& p, std::int64_t line, std::int64_t col) {
      return line * p.hidden + col;
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum&, std::int64_t line, std::int64_t col, double) {
      const int rank = static_cast<int>(line / p.rows);
      const float sum = value(p, rank, line % p.rows, p.more[kLayers] - 1, col);
      return {sum, 0, std::fabs(sum)};
    }
  };
  using Outputs = Checks<OfY, OfResidual>;
};

}  // namespace rmsnorm
