#pragma once
/// \file
/// RMSNorm, forward.

#include "common/contract/lesson.hpp"

namespace rmsnorm {

/// One RMSNorm to do:
///
///     y[row][col] = x[row][col] / sqrt(eps + mean over col of x[row][col]^2) * weight[col]
///
/// The tensors are fp32, contiguous and row-major; y overlaps neither x nor weight. Their addresses
/// are multiples of 4 bytes, and need not be multiples of more.
struct RmsNorm {
  const float* x;       ///< (rows, hidden)  input
  const float* weight;  ///< (hidden)        one factor a column
  float* y;             ///< (rows, hidden)  output
  int rows;             ///< 0 or more; rows * hidden may exceed 2^31
  int hidden;           ///< 1 to 2^30
  float eps;            ///< 0 or more; added to the mean, inside the square root. With 0, the
                        ///< squares of a row must not be so small that fp32 loses them.
};

/// The same with tensors of any type; arithmetic is fp32's, and what is stored is rounded once:
///
///     y[row][col] = x[row][col] / sqrt(eps + mean over col of x[row][col]^2)
///                   * (weight[col] + weight_bias)
///
/// The tensors' addresses are multiples of their elements' size, and need not be of more.
struct TypedRmsNorm {
  const void* x;       ///< (rows, hidden)  input, of type dtype
  const void* weight;  ///< (hidden)        of type weight_dtype; null: all are 1
  void* y;             ///< (rows, hidden)  output, of type dtype
  int rows;            ///< as an RmsNorm's
  int hidden;          ///< likewise
  float eps;           ///< likewise
  float weight_bias;   ///< 1 in models that store the weight less 1; 0 without weight
  Dtype dtype;         ///< of x and y
  Dtype weight_dtype;  ///< fp32, or that of x
};

/// 1 / sqrt(eps + mean of squares) of a row of `hidden` columns whose squares add up to `sum`.
///
/// A kernel that adds in fp32 makes Inf of a sum beyond that range, as IEEE 754 says, and 0 of the
/// row. That is no error; nor is the row as it should be, of a kernel that adds with more room.
__host__ __device__ inline double exact_rstd(double sum, int hidden, float eps) {
  return 1 / sqrt(sum / hidden + static_cast<double>(eps));
}

/// The same of a kernel that adds in fp32.
__host__ __device__ inline double reference_rstd(double sum, int hidden, float eps) {
  return exact_rstd(sum > FLT_MAX ? INFINITY : sum, hidden, eps);
}

/// The largest relative error that fp32 arithmetic can give an element of y in a correct kernel,
/// before it is rounded to a shorter type.
///
/// Let u = 2^-24, half an ulp of 1: one rounded operation is off by at most u, relatively. All
/// terms of the sum are squares, so nothing cancels, and the errors just add up:
///
///     square a term                                        1 u
///     add it, together with others, `additions` times      additions u
///     hidden as a float, the division by it, + eps         3 u
///         the square root halves what came so far          (additions + 4) / 2 u
///     rsqrtf, 2 ulp by the CUDA programming guide          4 u
///     x * rstd * weight                                    2 u
///     weight + weight_bias, if there is a bias             1 u
///
/// That is to first order. The root is bounded exactly, 1 / sqrt(1 - e) - 1 for an error e of the
/// mean, and one per cent is added for the products of the rest. It is infinite where the sum can
/// lose all its digits.
inline double rms_norm_bound(int additions, const Types& types) {
  constexpr double kHalfUlp = 0x1p-24;
  const double of_mean = (additions + 4.0) * kHalfUlp;
  if (of_mean >= 1) return INFINITY;
  const double of_factor = types.weight_bias == 0 ? 0 : kHalfUlp;
  return 1.01 * (1 / std::sqrt(1 - of_mean) - 1 + (4 + 2) * kHalfUlp + of_factor);
}

/// An element of y: the number to norm, what its row and its column make of it.
///
/// Next to zero fp32 has fewer than 24 bits (subnormals): there, rounding is off by up to 2^-150
/// whatever the size. x * rstd carries that on times the weight, x * weight times rstd.
__host__ __device__ inline Expected rms_norm_element(
    double x, double rstd, double factor, double bound) {
  const double value = x * rstd * factor;
  const double size = std::fabs(value);
  return {value, bound * size + 0x1p-150 * (1 + std::fabs(factor) + rstd), size};
}

/// The same from the sum of the row's squares.
__host__ __device__ inline Expected rms_norm_element(
    double x, double squares, double factor, double bound, const Problem& p) {
  Expected element = rms_norm_element(x, exact_rstd(squares, p.hidden, p.eps), factor, bound);
  element.may_be_zero = squares > FLT_MAX;
  return element;
}

template <>
struct Description<RmsNorm> : CommonDescription {
  using Of = RmsNorm;
  static constexpr const char* kName = "rms_norm";
  enum { kX, kWeight, kY };
  static constexpr TensorSpec kTensors[] = {
      {"x", Role::input, {side::rows, side::hidden}, Elements::like_x},
      {"weight", Role::input, {side::hidden}, Elements::like_weight},
      {"y", Role::output, {side::rows, side::hidden}, Elements::like_x},
  };

  static RmsNorm view(const Problem& p) {
    return {p.as<float>(kX), p.as<float>(kWeight), p.as<float>(kY), p.rows, p.hidden, p.eps};
  }

  struct OfY {
    static constexpr int kTensor = kY;
    static constexpr Along kAlong = Along::row;
    struct Sum {
      double squares = 0;
    };
    __host__ __device__ static void add(Sum& sum, const Sum& more) { sum.squares += more.squares; }
    __host__ __device__ static Sum term(const Problem& p, std::int64_t row, std::int64_t col) {
      const double x = p.like_x(kX, row * p.hidden + col);
      return {x * x};  // exact: 24 + 24 bits fit into 53
    }
    __host__ __device__ static Expected expected(
        const Problem& p, const Sum& sum, std::int64_t row, std::int64_t col, double bound) {
      const double x = p.like_x(kX, row * p.hidden + col);
      return rms_norm_element(x, sum.squares, p.factor(kWeight, col), bound, p);
    }
    static double bound(int additions, const Types& types) {
      return rms_norm_bound(additions, types);
    }
  };
  using Outputs = Checks<OfY>;
};

template <>
struct Description<TypedRmsNorm> : Description<RmsNorm> {
  static constexpr bool kIsTyped = true;
  static TypedRmsNorm view(const Problem& p) {
    return {p.tensors[kX], p.tensors[kWeight], p.tensors[kY], p.rows,        p.hidden,
            p.eps,         p.weight_bias,      p.dtype,       p.weight_dtype};
  }
};

}  // namespace rmsnorm
