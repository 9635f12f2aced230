#pragma once
/// \file
/// The backward pass of RMSNorm.

#include "common/operations/rms_norm.hpp"

namespace rmsnorm {

/// The backward pass of one RMSNorm. dy says how a loss changes with each element of y; the results
/// say how it changes with each element of x, dx, and of the weight, dweight. All is in fp32; with
/// n = x * rstd and g = dy * (weight + weight_bias):
///
///     dx[row][col] = rstd[row] * (g[row][col] - n[row][col] * mean over col of (g * n)[row][col])
///     dweight[col] = sum over row of dy[row][col] * n[row][col]
///
/// The same problem gives the same bits whenever it is solved. The tensors are contiguous and
/// row-major; what is written overlaps nothing else. Addresses are multiples of their elements'
/// size, that of the workspace of 256 bytes.
struct Backward {
  const void* x;       ///< (rows, hidden)  input of the forward pass, of type dtype
  const void* weight;  ///< (hidden)        of type weight_dtype; null: all are 1
  const float* rstd;   ///< (rows)          1 / sqrt(eps + mean over col of x^2)
  const void* dy;      ///< (rows, hidden)  of type dtype
  void* dx;            ///< (rows, hidden)  output, of type dtype
  void* dweight;       ///< (hidden)        output, of type weight_dtype; null: unwanted
  void* workspace;     ///< memory for what is neither input nor output, of Lesson::workspace_bytes
  int rows;            ///< 0 or more; rows * hidden may exceed 2^31
  int hidden;          ///< 1 to 2^30
  float weight_bias;   ///< as a TypedRmsNorm's
  Dtype dtype;         ///< of x, dy and dx
  Dtype weight_dtype;  ///< fp32, or that of x
};

template <>
struct Description<Backward> : CommonDescription {
  using Of = Backward;
  static constexpr const char* kName = "backward";
  static constexpr bool kSameBits = true;
  static constexpr bool kIsTyped = true;
  static constexpr const char* kRegime = "backward";
  enum { kX, kWeight, kRstd, kDy, kDx, kDweight };
  static constexpr TensorSpec kTensors[] = {
      {"x", Role::input, {side::rows, side::hidden}, Elements::like_x},
      {"weight", Role::input, {side::hidden}, Elements::like_weight},
      {"rstd", Role::derived, {side::rows}, Elements::fp32},
      {"dy", Role::input, {side::rows, side::hidden}, Elements::like_x, 0xd1},
      {"dx", Role::output, {side::rows, side::hidden}, Elements::like_x},
      {"dweight", Role::output, {side::hidden}, Elements::like_weight},
  };

  static Backward view(const Problem& p) {
    return {
        p.tensors[kX],
        p.tensors[kWeight],
        p.as<float>(kRstd),
        p.tensors[kDy],
        p.tensors[kDx],
        p.tensors[kDweight],
        p.workspace,
        p.rows,
        p.hidden,
        p.weight_bias,
        p.dtype,
        p.weight_dtype};
  }

  /// A sum of products, and that of their sizes. Where they differ, products cancel each other, and
  /// with them go digits: an error is in proportion to the sizes, not to the sum.
  struct OfProducts {
    struct Sum {
      double value = 0;  ///< the sum
      double size = 0;   ///< of the products without their signs
    };
    __host__ __device__ static void add(Sum& sum, const Sum& more) {
      sum.value += more.value;
      sum.size += more.size;
    }
  };
  /// n of one element.
  __host__ __device__ static double n_of(const Problem& p, std::int64_t row, std::int64_t col) {
    return p.like_x(kX, row * p.hidden + col) * static_cast<double>(p.fp32(kRstd, row));
  }
  /// g of one element.
  __host__ __device__ static double g_of(const Problem& p, std::int64_t row, std::int64_t col) {
    return p.like_x(kDy, row * p.hidden + col) * p.factor(kWeight, col);
  }

  /// The exact one of x and eps, rounded once: a lesson is not judged by its forward pass.
  struct OfRstd : Description<RmsNorm>::OfY {  // its sum is the same
    static constexpr int kTensor = kRstd;
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t, std::int64_t, double) {
      return {reference_rstd(sum.squares, p.hidden, p.eps), 0, 0};
    }
  };
  using Derived = Checks<OfRstd>;

  // Products next to zero have fewer than 24 bits (subnormals): each is off by up to 2^-150,
  // whatever its size. What follows multiplies that, or adds it up.

  struct OfDx : OfProducts {  // of g * n
    static constexpr int kTensor = kDx;
    static constexpr Along kAlong = Along::row;
    __host__ __device__ static Sum term(const Problem& p, std::int64_t row, std::int64_t col) {
      const double product = g_of(p, row, col) * n_of(p, row, col);
      return {product, std::fabs(product)};
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t row, std::int64_t col, double bound) {
      const double rstd = p.fp32(kRstd, row);
      const double g = g_of(p, row, col);
      const double n = n_of(p, row, col);
      const double mean = sum.value / p.hidden;
      const double mean_size = sum.size / p.hidden;
      const double size = std::fabs(rstd * g) + std::fabs(rstd * n) * mean_size;
      const double subnormal = 0x1p-148 * (1 + rstd * (1 + std::fabs(n) + mean_size));
      return {rstd * g - rstd * (n * mean), bound * size + subnormal, size};
    }
    /// How far fp32 arithmetic can take an element of dx, as a part of the sizes of its two terms.
    ///
    /// Let u = 2^-24, half an ulp of 1: one rounded operation is off by at most u, relatively. Sums
    /// are off in proportion to the sizes of what is added, since products of either sign cancel.
    /// With A = mean of |g * n|, and the terms of dx as |g| and |n| A, rstd apart:
    ///
    ///     weight + bias, times dy: g                            2 u  of |g|
    ///     x * rstd: n                                           1 u
    ///     g * n, and so many additions                          additions + 4 u  of A
    ///     hidden as a float, the division by it                 2 u
    ///         so the mean, for a kernel that has it             additions + 6 u  of A
    ///     n * mean                                              additions + 8 u  of |n| A
    ///     g - n * mean, times rstd                              2 u  of both
    ///
    /// which makes additions + 10 of the one term, and less of the other. That is to first order;
    /// one per cent is added for the products of the errors.
    static double bound(int additions, const Types&) { return 1.01 * (additions + 10) * 0x1p-24; }
  };

  struct OfDweight : OfProducts {  // of dy * n
    static constexpr int kTensor = kDweight;
    static constexpr Along kAlong = Along::column;
    __host__ __device__ static Sum term(const Problem& p, std::int64_t row, std::int64_t col) {
      const double product = p.like_x(kDy, row * p.hidden + col) * n_of(p, row, col);
      return {product, std::fabs(product)};
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t, std::int64_t, double bound) {
      const double subnormal = 0x1p-148 * (1 + static_cast<double>(p.rows));
      return {sum.value, bound * sum.size + subnormal, sum.size};
    }
    /// The same of an element of dweight, as a part of its products' sizes: x * rstd, times dy, and
    /// so many additions.
    static double bound(int additions, const Types&) { return 1.01 * (additions + 2) * 0x1p-24; }
  };
  using Outputs = Checks<OfDx, OfDweight>;
};

}  // namespace rmsnorm
