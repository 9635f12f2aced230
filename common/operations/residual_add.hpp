#pragma once
/// \file
/// RMSNorm of a sum, which takes a residual's place.

#include "common/operations/rms_norm.hpp"

namespace rmsnorm {

/// One residual add and its RMSNorm to do; arithmetic is fp32's:
///
///     sum[row][col] = x[row][col] + residual[row][col]
///     residual[row][col] = sum[row][col]
///     y[row][col] = sum[row][col] / sqrt(eps + mean over col of sum[row][col]^2)
///                   * (weight[col] + weight_bias)
///
/// What is stored is rounded once: y and the residual, but not the sums that are normed. The
/// tensors are contiguous and row-major, and no two overlap. Their addresses are multiples of their
/// elements' size, and need not be of more.
struct ResidualAdd {
  const void* x;       ///< (rows, hidden)  input, of type dtype
  void* residual;      ///< (rows, hidden)  input and output, of type dtype
  const void* weight;  ///< (hidden)        of type weight_dtype; null: all are 1
  void* y;             ///< (rows, hidden)  output, of type dtype
  int rows;            ///< 0 or more; rows * hidden may exceed 2^31
  int hidden;          ///< 1 to 2^30
  float eps;           ///< 0 or more
  float weight_bias;   ///< 1 in models that store the weight less 1; 0 without weight
  Dtype dtype;         ///< of x, y and the residual
  Dtype weight_dtype;  ///< fp32, or that of x
};

/// What operations have alike whose sums are normed, and take a residual's place.
/// \tparam Summed the description. It gives element i of the sums, on host and device, as an fp32
///               number, with the roundings that the reference makes, too. (Where it multiplies
///               and adds, a compiler may round once: leave products out.)
///
///     static float sum_of(const Problem&, std::int64_t i);
template <class Summed>
struct DescriptionOfSums : CommonDescription {
  static constexpr bool kIsTyped = true;
  enum { kX, kResidual, kWeight, kY };

  struct OfResidual {
    static constexpr int kTensor = kResidual;
    static constexpr Along kAlong = Along::row;
    struct Sum {};
    __host__ __device__ static void add(Sum&, const Sum&) {}
    __host__ __device__ static Sum term(const Problem&, std::int64_t, std::int64_t) { return {}; }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum&, std::int64_t row, std::int64_t col, double) {
      const float sum = Summed::sum_of(p, row * p.hidden + col);
      return {sum, 0, std::fabs(sum)};
    }
    static double bound(int, const Types&) { return 0; }
  };

  struct OfY : Description<RmsNorm>::OfY {
    static constexpr int kTensor = kY;
    __host__ __device__ static Sum term(const Problem& p, std::int64_t row, std::int64_t col) {
      const double sum = Summed::sum_of(p, row * p.hidden + col);
      return {sum * sum};
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t row, std::int64_t col, double bound) {
      const double x = Summed::sum_of(p, row * p.hidden + col);
      return rms_norm_element(x, sum.squares, p.factor(kWeight, col), bound, p);
    }
  };
  using Outputs = Checks<OfY, OfResidual>;
};

template <>
struct Description<ResidualAdd> : DescriptionOfSums<Description<ResidualAdd>> {
  using Of = ResidualAdd;
  static constexpr const char* kName = "residual_add";
  static constexpr TensorSpec kTensors[] = {
      {"x", Role::input, {side::rows, side::hidden}, Elements::like_x},
      {"residual", Role::in_place, {side::rows, side::hidden}, Elements::like_x, 0x4e51d},
      {"weight", Role::input, {side::hidden}, Elements::like_weight},
      {"y", Role::output, {side::rows, side::hidden}, Elements::like_x},
  };

  static ResidualAdd view(const Problem& p) {
    void* const* const t = p.tensors;
    return {t[kX],    t[kResidual], t[kWeight],    t[kY],   p.rows,
            p.hidden, p.eps,        p.weight_bias, p.dtype, p.weight_dtype};
  }

  /// As an fp32 number: one rounding, which the reference makes, too.
  __host__ __device__ static float sum_of(const Problem& p, std::int64_t i) {
    return p.like_x(kX, i) + p.like_x(kResidual, i);
  }
};

}  // namespace rmsnorm
