#pragma once
/// \file
/// RMSNorm behind a gate.

#include "common/operations/rms_norm.hpp"

namespace rmsnorm {

/// One gated RMSNorm to do, as models with a state in place of attention have it:
///
///     y[row][col] = x[row][col] / sqrt(eps + mean over col of x[row][col]^2) * weight[col]
///                   * silu(z[row][col])
///     silu(z) = z / (1 + exp(-z))
///
/// That is NaN for a z of -Inf.
/// The tensors are fp32, contiguous and row-major; y overlaps none of the others. Their addresses
/// are multiples of 4 bytes, and need not be multiples of more.
struct GatedNorm {
  const float* x;       ///< (rows, hidden)  input
  const float* z;       ///< (rows, hidden)  input, of the gate
  const float* weight;  ///< (hidden)        one factor a column
  float* y;             ///< (rows, hidden)  output
  int rows;             ///< 0 or more; rows * hidden may exceed 2^31
  int hidden;           ///< 1 to 2^30
  float eps;            ///< 0 or more; added to the mean, inside the square root
};

template <>
struct Description<GatedNorm> : CommonDescription {
  using Of = GatedNorm;
  static constexpr const char* kName = "gated_norm";
  enum { kX, kZ, kWeight, kY };
  static constexpr TensorSpec kTensors[] = {
      {"x", Role::input, {side::rows, side::hidden}, Elements::like_x},
      {"z", Role::input, {side::rows, side::hidden}, Elements::like_x, 0x6a7e},
      {"weight", Role::input, {side::hidden}, Elements::like_weight},
      {"y", Role::output, {side::rows, side::hidden}, Elements::like_x},
  };

  static GatedNorm view(const Problem& p) {
    return {p.as<float>(kX),
            p.as<float>(kZ),
            p.as<float>(kWeight),
            p.as<float>(kY),
            p.rows,
            p.hidden,
            p.eps};
  }

  struct OfY : Description<RmsNorm>::OfY {
    static constexpr int kTensor = kY;
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t row, std::int64_t col, double bound) {
      const std::int64_t i = row * p.hidden + col;
      const double x = p.like_x(kX, i), z = p.like_x(kZ, i), weight = p.factor(kWeight, col);
      const double gate = z / (1 + exp(-z));
      Expected element = rms_norm_element(x, sum.squares, weight * gate, bound, p);
      // In whatever order the factors are multiplied, a product next to zero is off by 2^-150.
      const double rstd = exact_rstd(sum.squares, p.hidden, p.eps);
      const double factors = (1 + std::fabs(weight)) * (1 + std::fabs(gate));
      const double norm = std::fabs(x * rstd);
      element.allowed +=
          0x1p-150 * ((1 + rstd) * factors + norm) + kLostGate * norm * std::fabs(weight);
      return element;
    }
    /// What a gate of fp32 may lose: from z = -87.3 on, 1 / (1 + exp(-z)) is subnormal, and from
    /// -88.73 on, exp(-z) is Inf.
    static constexpr double kLostGate = 0x1p-119;
    /// How far fp32 arithmetic can take an element, relatively: as far as the norm, and, with u =
    /// 2^-24, half an ulp of 1:
    ///
    ///     expf, 2 ulp by the CUDA programming guide                  4 u
    ///     1 + exp(-z)                                                1 u
    ///     the division, 2 ulp where it is by a reciprocal            4 u
    ///     a product, if that is of 1, and one more for the gate      2 u
    static double bound(int additions, const Types& types) {
      return rms_norm_bound(additions, types) + 1.01 * 11 * 0x1p-24;
    }
  };
  using Outputs = Checks<OfY>;
};

}  // namespace rmsnorm
