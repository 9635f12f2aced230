#pragma once
/// \file
/// Softmax of each row.

#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// One softmax to do:
///
///     y[row][col] = exp(x[row][col] - max over col of x[row][col])
///                   / sum over col of exp(x[row][col] - max over col of x[row][col])
///
/// The tensors are fp32, contiguous and row-major; y does not overlap x. Their addresses are
/// multiples of 4 bytes, and need not be multiples of more. A row with a NaN or +Inf becomes NaN.
struct Softmax {
  const float* x;  ///< (rows, hidden)  input
  float* y;        ///< (rows, hidden)  output
  int rows;        ///< 0 or more; rows * hidden may exceed 2^31
  int hidden;      ///< 1 to 2^30
};

template <>
struct Description<Softmax> : CommonDescription {
  using Of = Softmax;
  static constexpr const char* kName = "softmax";
  static constexpr bool kHasEps = false;
  enum { kX, kY };
  static constexpr TensorSpec kTensors[] = {
      {"x", Role::input, {side::rows, side::hidden}, Elements::like_x},
      {"y", Role::output, {side::rows, side::hidden}, Elements::like_x},
  };

  static Softmax view(const Problem& p) {
    return {p.as<float>(kX), p.as<float>(kY), p.rows, p.hidden};
  }

  struct OfY {
    static constexpr int kTensor = kY;
    static constexpr Along kAlong = Along::row;
    struct Sum {
      double max = -INFINITY;
      double sum = 0;        ///< of exp(x - max)
      double distances = 0;  ///< of (max - x) * exp(x - max)
    };
    /// The same sums with a larger max.
    __host__ __device__ static Sum below(const Sum& sum, double max) {
      const double distance = max - sum.max;
      if (sum.sum == 0 || distance == 0) return {max, sum.sum, sum.distances};
      const double factor = exp(-distance);
      if (factor == 0) return {max, 0 * sum.sum, 0};  // max may be Inf away; NaN stays
      return {max, factor * sum.sum, factor * (sum.distances + distance * sum.sum)};
    }
    __host__ __device__ static void add(Sum& sum, const Sum& more) {
      const double max = fmax(sum.max, more.max);
      const Sum a = below(sum, max);
      const Sum b = below(more, max);
      sum = {max, a.sum + b.sum, a.distances + b.distances};
    }
    __host__ __device__ static Sum term(const Problem& p, std::int64_t row, std::int64_t col) {
      const double x = p.like_x(kX, row * p.hidden + col);
      return {x, x == -INFINITY ? 0 : exp(x - x), 0};  // NaN for NaN and Inf
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t row, std::int64_t col, double bound) {
      const double distance = sum.max - p.like_x(kX, row * p.hidden + col);
      const double value = exp(-distance) / sum.sum;
      const double of_distances =
          value > 0 ? 1.01 * 0x1p-24 * (distance + sum.distances / sum.sum) : 0;
      return {value, (bound + of_distances) * value + 0x1p-148, value};
    }
    /// How far fp32 arithmetic can take an element, relatively, apart from what is in proportion to
    /// the distances from the max. With u = 2^-24, half an ulp of 1:
    ///
    ///     max - x is off by u, relatively: that is a factor of exp(u (max - x))
    ///     expf, 2 ulp by the CUDA programming guide                  4 u
    ///     the sum: terms with that error, so many additions          additions + 4 u
    ///     the division, 2 ulp where it is by a reciprocal            4 u
    static double bound(int additions, const Types&) { return 1.01 * (additions + 12) * 0x1p-24; }
  };
  using Outputs = Checks<OfY>;
};

}  // namespace rmsnorm
