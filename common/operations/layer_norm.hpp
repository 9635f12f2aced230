#pragma once
/// \file
/// LayerNorm.

#include "common/operations/rms_norm.hpp"

namespace rmsnorm {

/// One LayerNorm to do:
///
///     mean[row] = mean over col of x[row][col]
///     y[row][col] = (x[row][col] - mean[row])
///                   / sqrt(eps + mean over col of (x[row][col] - mean[row])^2)
///                   * weight[col] + bias[col]
///
/// The tensors are fp32, contiguous and row-major; y overlaps none of the others. Their addresses
/// are multiples of 4 bytes, and need not be multiples of more.
struct LayerNorm {
  const float* x;       ///< (rows, hidden)  input
  const float* weight;  ///< (hidden)        one factor a column
  const float* bias;    ///< (hidden)        one term a column
  float* y;             ///< (rows, hidden)  output
  int rows;             ///< 0 or more; rows * hidden may exceed 2^31
  int hidden;           ///< 1 to 2^30
  float eps;            ///< 0 or more; added to the variance, inside the square root
};

template <>
struct Description<LayerNorm> : CommonDescription {
  using Of = LayerNorm;
  static constexpr const char* kName = "layer_norm";
  enum { kX, kWeight, kBias, kY };
  static constexpr TensorSpec kTensors[] = {
      {"x", Role::input, {side::rows, side::hidden}, Elements::like_x},
      {"weight", Role::input, {side::hidden}, Elements::like_weight},
      {"bias", Role::input, {side::hidden}, Elements::like_weight, 0xb1a5},
      {"y", Role::output, {side::rows, side::hidden}, Elements::like_x},
  };

  static LayerNorm view(const Problem& p) {
    return {
        p.as<float>(kX),
        p.as<float>(kWeight),
        p.as<float>(kBias),
        p.as<float>(kY),
        p.rows,
        p.hidden,
        p.eps};
  }

  struct OfY {
    static constexpr int kTensor = kY;
    static constexpr Along kAlong = Along::row;
    struct Sum {
      double count = 0;
      double mean = 0;
      double squares = 0;  ///< of the distances from the mean
      double sizes = 0;    ///< of x
    };
    /// Two parts of a row as one: their squares, and those of the distance between their means.
    __host__ __device__ static void add(Sum& sum, const Sum& more) {
      if (more.count == 0) return;
      const double count = sum.count + more.count;
      const double distance = more.mean - sum.mean;
      sum.squares += more.squares + distance * distance * (sum.count * more.count / count);
      sum.mean += distance * (more.count / count);
      sum.sizes += more.sizes;
      sum.count = count;
    }
    __host__ __device__ static Sum term(const Problem& p, std::int64_t row, std::int64_t col) {
      const double x = p.like_x(kX, row * p.hidden + col);
      return {1, x, 0, std::fabs(x)};
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t row, std::int64_t col, double bound) {
      const double distance = p.like_x(kX, row * p.hidden + col) - sum.mean;
      const double rstd = reference_rstd(sum.squares, p.hidden, p.eps);
      const double weight = p.like_weight(kWeight, col);
      const double bias = p.like_weight(kBias, col);
      const double scale = rstd * std::fabs(weight);
      const double of_mean = bound * sum.sizes / p.hidden;
      const double size = (sum.sizes / p.hidden + std::fabs(distance)) * scale + std::fabs(bias);
      const double of_shift = std::fabs(distance) * scale * of_mean * of_mean * rstd * rstd;
      const double subnormal = 0x1p-148 * (1 + scale + rstd);
      return {distance * rstd * weight + bias, bound * size + of_shift + subnormal, size};
    }
    /// How far fp32 arithmetic can take an element, as a part of (A + |d|) rstd |weight| + |bias|,
    /// where A is the mean of |x|, d = x - mean, and u = 2^-24 is half an ulp of 1:
    ///
    ///     the mean: so many additions, hidden as a float, the division     additions + 2 u  of A
    ///     d                                                                1 u  of |d|
    ///     the variance: d twice, its square, additions, the division       additions + 6 u
    ///         the square root halves that                                  (additions + 6) / 2 u
    ///     rsqrtf, 2 ulp                                                    4 u
    ///     d * rstd * weight + bias                                         3 u
    ///
    /// A mean that is off shifts every d alike. The variance does not notice that to first order,
    /// since the distances add up to 0; what it adds is its square, which is far less than the
    /// variance unless all x are nearly the same. It is added on its own (of_shift).
    static double bound(int additions, const Types&) { return 1.01 * (additions + 16) * 0x1p-24; }
  };
  using Outputs = Checks<OfY>;
};

}  // namespace rmsnorm
